"""Greedy answers to the prompts of a split."""

from collections.abc import Sequence

import pytest
import torch

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from inference.errors import HplmError
from tests.unit.inference.generation.decoder_world import generated, prompts, random_lora
from tests.unit.tiny_decoder import EOS, FAMILIES, POSITIONS, tiny_decoder
from tests.unit.workers.training.generative.world import tiny_tokenizer
from tests.unit.workers.training.world import CancelAt, NullReporter, Recorder
from workers.training.generative.generation import (
    MAX_SHOWN,
    Answer,
    Prompt,
    generate_answers,
    prompts_of_test,
)
from workers.training.generative.metrics import TextScore
from workers.training.generative.rows import PromptRow
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.progress import Cancelled, Reporter

TINY = tiny_tokenizer()


def no_change(family: str = "llama") -> DecoderLora:
    architecture = tiny_decoder(family).architecture
    inputs, outputs = architecture.projection_shape("query")
    return DecoderLora.of({(0, "query"): (torch.ones(inputs, 1), torch.zeros(1, outputs))}, architecture)


def answers_to(
    asked: Sequence[Sequence[int]],
    *,
    decoder: Decoder | None = None,
    lora: DecoderLora | None = None,
    tokenizer: GenerativeTokenizer = TINY,
    max_tokens: int = 50,
    reporter: Reporter | None = None,
) -> list[Answer]:
    return generate_answers(
        [Prompt(tuple(ids), row, ["x"]) for row, ids in enumerate(asked)],
        tokenizer,
        decoder or tiny_decoder(),
        lora or no_change(),
        context=POSITIONS,
        max_tokens=max_tokens,
        reporter=reporter or NullReporter(),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_those_of_transformers_with_the_lora_merged(family: str) -> None:
    asked, decoder = prompts(9, 20), tiny_decoder(family)
    found = answers_to(asked, decoder=decoder, lora=random_lora(decoder, 2), max_tokens=12)
    for ids, answer in zip(asked, found, strict=True):
        expected = [token for token in generated(family, "2", ids, 12) if token != EOS]
        assert answer.text == TINY.decode(expected, ids)


def test_an_answer_ends_where_the_context_ends() -> None:
    (answer,) = answers_to([[7] * (POSITIONS - 3)], tokenizer=tiny_tokenizer(stop_ids=()))
    tokens = generated("llama", "root", (7,) * (POSITIONS - 3), 3)
    assert answer.text == TINY.decode(tokens)


def test_more_prompts_than_fit_side_by_side_are_all_answered_in_their_order() -> None:
    asked = prompts(80, 12)
    reporter = Recorder()
    found = answers_to(asked, max_tokens=3, reporter=reporter)
    assert [answer.row for answer in found] == list(range(80))
    alone = [answers_to([ids], max_tokens=3)[0].text for ids in asked[::20]]
    assert [answer.text for answer in found[::20]] == alone
    (done,) = [done for name, _, done in reporter.stages if name == "generate"]
    assert done[-1] == 80


def test_a_cancelled_job_stops_within_an_answer() -> None:
    reporter = CancelAt(4)
    with pytest.raises(Cancelled):
        answers_to([[7, 8]], tokenizer=tiny_tokenizer(stop_ids=()), reporter=reporter)
    assert reporter.late_steps == 0


def test_numbers_that_are_not_finite_fail_the_job() -> None:
    with pytest.raises(HplmError, match="not finite"):
        answers_to([[7, 8]], lora=random_lora(tiny_decoder(), 1, scale=1e30))


def test_rows_with_one_prompt_are_references_of_one_answer() -> None:
    rows = [PromptRow("a", "1"), PromptRow("b", "2"), PromptRow("a", "3")]
    found = prompts_of_test(rows, TINY, 10, NullReporter())
    assert [(TINY.decode(one.ids), one.row, one.references) for one in found] == [
        ("a", 0, ["1", "3"]),
        ("b", 1, ["2"]),
    ]
    answer = Answer("a", "3", found[0].references, 0)
    assert answer.to_json() == {"prompt": "a", "answer": "3", "reference": "1"}


def test_a_stored_answer_has_the_closest_reference_and_no_more_text_than_a_page_shows() -> None:
    long = "word " * 1_000
    stored = Answer("a", long, ["1", long], 0).evaluated(TextScore(0.25, long))
    assert (stored.right, stored.score) == (None, 0.25)
    assert len(stored.answer) == len(stored.gold) == MAX_SHOWN


def test_at_most_so_many_prompts_are_answered_and_they_come_from_the_whole_split() -> None:
    rows = [PromptRow(f"{number:02}", "x") for number in range(100)]
    found = prompts_of_test(rows, TINY, 4, NullReporter())
    assert [TINY.decode(prompt.ids) for prompt in found] == ["00", "25", "50", "75"]


def test_prompts_that_leave_no_room_in_the_context_have_no_answer() -> None:
    tokenizer = tiny_tokenizer(3)
    rows = [PromptRow("abc", "x"), PromptRow("ab", "x")]
    assert len(prompts_of_test(rows, tokenizer, 9, NullReporter())) == 1
    with pytest.raises(HplmError, match="in 3 tokens") as caught:
        prompts_of_test(rows[:1], tokenizer, 9, NullReporter())
    assert caught.value.code == "too_few_rows"
