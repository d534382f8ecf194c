"""Which tokens of a row a generative model reads, and which it learns to write."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from inference.errors import HplmError
from tests.unit.tiny_decoder import EOS, EOS_TOKEN
from tests.unit.workers.training.generative.world import render, tiny_tokenizer
from workers.training.generative.packing import TrainingSequence
from workers.training.generative.rows import ChatRow, Message, PromptRow
from workers.training.generative.tokenization import GenerativeTokenizer

TINY = tiny_tokenizer()
SYSTEM, USER = Message("system", "Be short."), Message("user", "Hello")
LEARNED, READ = Message("assistant", "Hi", learned=True), Message("assistant", "Hm")


def shown(tokenizer: GenerativeTokenizer, sequence: TrainingSequence | None) -> tuple[str, list[str]]:
    """The whole text, and the runs of learned tokens in it, with the stop token as <eos>."""
    assert sequence is not None
    pieces = tokenizer.tokenizer.decode_batch([[token] for token in sequence.ids], skip_special_tokens=False)
    runs: list[list[str]] = [[]]
    for piece, is_learned in zip(pieces[1:], sequence.learned, strict=True):
        if is_learned:
            runs[-1].append(piece)
        elif runs[-1]:
            runs.append([])
    texts = ["".join(run) for run in runs if run]
    return "".join(pieces).replace(EOS_TOKEN, "<eos>"), [text.replace(EOS_TOKEN, "<eos>") for text in texts]


def test_the_completion_and_the_stop_token_are_learned_and_the_prompt_is_not() -> None:
    row = PromptRow("name: Aromi\n", " a pub ")
    text, learned = shown(TINY, TINY.sequence(row))
    assert (text, learned) == ("name: Aromi\n a pub <eos>", [" a pub <eos>"])
    assert TINY.decode(TINY.prompt(row)) == "name: Aromi\n"


def merging_tokenizer() -> GenerativeTokenizer:
    """Knows "a", "b" and "ab", so that a prompt and its completion can merge."""
    vocabulary = {"a": 0, "b": 1, "ab": 2, "<eos>": 3}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return GenerativeTokenizer(tokenizer, (3,), render, 100)


def test_a_prompt_has_the_tokens_of_serving_whatever_follows_it() -> None:
    tokenizer = merging_tokenizer()
    for prompt, completion, ids in (("ba", "b", [1, 0, 1, 3]), ("b", "ab", [1, 2, 3])):
        row = PromptRow(prompt, completion)
        found = tokenizer.sequence(row)
        assert found is not None
        assert found.ids.tolist() == ids
        assert ids[: len(prompt)] == tokenizer.prompt(row)


def test_every_answer_of_a_conversation_is_learned_up_to_its_stop_token() -> None:
    row = ChatRow((SYSTEM, USER, LEARNED, USER, READ, USER, LEARNED))
    text, learned = shown(TINY, TINY.sequence(row))
    assert text == render(row.messages, False).rstrip().replace(EOS_TOKEN, "<eos>")
    assert learned == ["Hi<eos>", "Hi<eos>"]
    assert TINY.decode(TINY.prompt(row)).endswith("[user]Hello\n[assistant]")


def test_a_greeting_that_opens_a_conversation_is_only_read() -> None:
    _, learned = shown(TINY, TINY.sequence(ChatRow((LEARNED, USER, LEARNED))))
    assert learned == ["Hi<eos>"]


def without_stops(messages: Sequence[Message], open_turn: bool) -> str:
    return render(messages, open_turn).replace(EOS_TOKEN, "")


def test_an_answer_ends_with_a_stop_token_though_the_template_writes_none() -> None:
    tokenizer = replace(TINY, render=without_stops)
    text, learned = shown(tokenizer, tokenizer.sequence(ChatRow((USER, LEARNED))))
    assert (text, learned) == ("[user]Hello\n[assistant]Hi<eos>", ["Hi<eos>"])


def rewriting(messages: Sequence[Message], open_turn: bool) -> str:
    """Writes a mark before the last answer alone."""
    last = len(messages) - 1
    marked = [
        replace(message, content="<think>" + message.content)
        if message.role == "assistant" and index == last
        else message
        for index, message in enumerate(messages)
    ]
    return render(marked, open_turn)


def test_where_a_template_rewrites_earlier_answers_only_the_last_is_learned() -> None:
    tokenizer = replace(TINY, render=rewriting)
    text, learned = shown(tokenizer, tokenizer.sequence(ChatRow((USER, LEARNED, USER, LEARNED))))
    assert learned == ["<think>Hi<eos>"]
    assert text.count("<think>") == 1


def test_a_template_that_never_continues_what_it_opens_is_an_error() -> None:
    tokenizer = replace(TINY, render=lambda messages, open_turn: f"{open_turn} {len(messages)}")
    with pytest.raises(HplmError, match="nothing can be learned") as caught:
        tokenizer.sequence(ChatRow((USER, LEARNED)))
    assert caught.value.code == "malformed_row"


def test_what_a_template_refuses_is_an_error_of_the_row() -> None:
    def refusing(messages: Sequence[Message], open_turn: bool) -> str:
        raise HplmError("invalid_field", "roles must alternate")

    with pytest.raises(HplmError, match="roles must alternate") as caught:
        replace(TINY, render=refusing).sequence(ChatRow((USER, LEARNED)))
    assert caught.value.code == "malformed_row"


@pytest.mark.parametrize(("limit", "learned"), [(3, "yes"), (4, "yes"), (5, "yes<eos>"), (9, "yes<eos>")])
def test_a_long_row_loses_its_end(limit: int, learned: str) -> None:
    tokenizer = tiny_tokenizer(limit)
    found = tokenizer.sequence(PromptRow("ab", "yes"))
    assert found is not None
    assert len(found) <= limit
    assert shown(tokenizer, found)[1] == [learned[: max(limit - 1, 0)] if limit < 5 else learned]
    assert found.truncated is (limit < 5)


def test_a_row_whose_prompt_fills_the_context_has_nothing_to_learn() -> None:
    assert tiny_tokenizer(2).sequence(PromptRow("abc", "yes")) is None
    assert tiny_tokenizer(3).sequence(PromptRow("abc", "yes")) is not None


def test_nothing_follows_the_last_learned_token() -> None:
    found = TINY.sequence(ChatRow((USER, LEARNED, USER, READ)))
    assert found is not None
    assert found.ids[-1] == EOS
    assert shown(TINY, found) == ("[user]Hello<eos>\n[assistant]Hi<eos>", ["Hi<eos>"])
