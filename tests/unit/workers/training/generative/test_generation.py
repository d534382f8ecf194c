"""Greedy answers to the prompts of a split."""

from collections.abc import Sequence

import pytest
import torch

from inference.decoder.lora import DecoderLora
from inference.errors import HplmError
from tests.unit.tiny_decoder import EOS, FAMILIES, POSITIONS, tiny_decoder, tiny_decoder_model
from tests.unit.workers.training.generative.world import tiny_tokenizer
from tests.unit.workers.training.world import CancelAt, NullReporter
from workers.training.generative.generation import GreedyLoop, generate_answers, prompts_of_test
from workers.training.generative.rows import PromptRow
from workers.training.progress import Cancelled

TINY = tiny_tokenizer()


def no_change(family: str = "llama") -> DecoderLora:
    architecture = tiny_decoder(family).architecture
    inputs, outputs = architecture.projection_shape("query")
    return DecoderLora.of({(0, "query"): (torch.ones(inputs, 1), torch.zeros(1, outputs))}, architecture)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loop_writes_what_transformers_writes(family: str) -> None:
    prompts = [TINY.prompt(PromptRow(text, "x")) for text in ("name: Aromi", "b", "what is it?")]
    loop = GreedyLoop(tiny_decoder(family), (EOS,), NullReporter())
    found = loop(prompts, no_change(family), 12)
    model = tiny_decoder_model(family)
    for prompt, completion in zip(prompts, found, strict=True):
        expected = model.generate(  # type: ignore[operator]
            torch.tensor([prompt]), max_new_tokens=12, do_sample=False, pad_token_id=EOS
        )
        written = expected[0, len(prompt) :].tolist()
        assert completion == (written[: written.index(EOS)] if EOS in written else written)


def test_an_answer_ends_where_the_context_ends() -> None:
    loop = GreedyLoop(tiny_decoder(), (), NullReporter())
    (found,) = loop([[7] * (POSITIONS - 2)], no_change(), 50)
    assert len(found) == 3


def test_a_cancelled_job_stops_within_an_answer() -> None:
    loop = GreedyLoop(tiny_decoder(), (), CancelAt(4))
    with pytest.raises(Cancelled):
        loop([[7, 8]], no_change(), 50)


def test_rows_with_one_prompt_are_references_of_one_answer() -> None:
    rows = [PromptRow("a", "1"), PromptRow("b", "2"), PromptRow("a", "3")]
    calls: list[Sequence[Sequence[int]]] = []

    def generate(prompts: Sequence[Sequence[int]], lora: DecoderLora, max_tokens: int) -> list[list[int]]:
        calls.append(prompts)
        return [TINY.prompt(PromptRow("3", "x")) for _ in prompts]

    prompts = prompts_of_test(rows, TINY, 10, NullReporter())
    answers = generate_answers(prompts, TINY, generate, no_change(), 5, NullReporter())
    assert [(one.prompt, one.text, list(one.references)) for one in answers] == [
        ("a", "3", ["1", "3"]),
        ("b", "3", ["2"]),
    ]
    assert len(calls) == 1
    assert answers[0].to_json() == {"prompt": "a", "answer": "3", "reference": "1"}


def test_at_most_so_many_prompts_are_answered_and_they_come_from_the_whole_split() -> None:
    rows = [PromptRow(f"{number:02}", "x") for number in range(100)]
    prompts = prompts_of_test(rows, TINY, 4, NullReporter())
    assert [TINY.decode(prompt) for prompt in prompts] == ["00", "25", "50", "75"]


def test_prompts_that_are_longer_than_the_context_have_no_answer() -> None:
    tokenizer = tiny_tokenizer(3)
    rows = [PromptRow("abcd", "x"), PromptRow("abc", "x")]
    assert len(prompts_of_test(rows, tokenizer, 9, NullReporter())) == 1
    with pytest.raises(HplmError, match="within 3 tokens") as caught:
        prompts_of_test(rows[:1], tokenizer, 9, NullReporter())
    assert caught.value.code == "too_few_rows"
