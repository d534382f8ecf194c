"""Texts of tenants are tokenised without stopping the other threads, and no more of them than is needed."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from inference.text import encode, tokenization
from inference.text.chat_template import ChatTemplate
from inference.text.encode import CHARACTERS_PER_TOKEN, TooManyTokens, encode_batch, token_ids
from inference.text.encodings import WINDOWS, InferInput, encode_inputs
from inference.text.prompts import PromptTokenizer
from inference.text.special_tokens import SPECIAL_TOKENS
from inference.text.tasks import QUESTION_ANSWERING
from inference.text.tokenization import MAX_CHARACTERS_PER_TOKEN, TextTokenizer
from tests.other_threads import turns_meanwhile
from tests.unit.byte_tokenizer import byte_tokenizer
from tests.unit.families import byte_level_tokenizer
from tests.unit.tiny import tiny_tokenizer

DIGITS = "0123456789" * 30_000
MAX_TOKENS = 32
SIZE = 1 << 20
HOSTILE = {
    "one word": "a" * SIZE,
    "digits": DIGITS,
    "blanks": " " * SIZE + "a",
    "dots": "." * SIZE,
    "nothing": "\u200b" * SIZE,
    "words": "a " * (SIZE // 2),
}


def pairs_tokenizer() -> tokenizers.Tokenizer:
    """A byte-level BPE with tokens of up to 128 blanks, as GPT-2's."""
    blanks = ["Ġ" * 2**power for power in range(7)]
    return byte_tokenizer(merges=[(blank, blank) for blank in blanks])


BPE = pairs_tokenizer()
PROMPTS = PromptTokenizer(pairs_tokenizer(), ChatTemplate("{{ messages[0].content }}"))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of each call of the tokenizer of encoders."""
    sizes: list[int] = []

    def recording(tokenizer: tokenizers.Tokenizer, texts: Sequence[Any], **given: Any) -> Any:
        sizes.append(sum(map(len, texts)))
        return encode_batch(tokenizer, texts, **given)

    monkeypatch.setattr(tokenization, "encode_batch", recording)
    return sizes


@pytest.mark.parametrize(
    "compute",
    [
        lambda: PROMPTS.encode_text(DIGITS),
        lambda: PROMPTS.encode_rendered(DIGITS),
        lambda: encode_batch(BPE, [DIGITS]),
        lambda: TextTokenizer(tiny_tokenizer(), max_tokens=10**5).encode(DIGITS),
    ],
    ids=["prompt", "chat", "batch", "text"],
)
def test_other_threads_run_while_a_long_text_is_tokenised(compute: Callable[[], object]) -> None:
    assert turns_meanwhile(compute) >= 10


@given(
    text=st.lists(st.sampled_from(["a", " ", " " * 200, "12", "é", "\n", "\r\n \n"]), max_size=60).map(
        "".join
    ),
    limit=st.integers(1, 40),
)
def test_a_text_is_refused_exactly_if_it_does_not_fit(text: str, limit: int) -> None:
    whole = BPE.encode(text).ids
    if len(whole) <= limit:
        assert token_ids(BPE, text, add_special_tokens=True, limit=limit) == whole
        return
    with pytest.raises(TooManyTokens) as refusal:
        token_ids(BPE, text, add_special_tokens=True, limit=limit)
    assert refusal.value.tokens in {len(whole), None}
    assert refusal.value.tokens_read > limit


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_beginning_of_a_too_long_prompt_is_read(text: str) -> None:
    limit = 512
    with pytest.raises(TooManyTokens) as refusal:
        token_ids(BPE, text, add_special_tokens=True, limit=limit)
    assert refusal.value.tokens_read <= encode.GROWTH**2 * CHARACTERS_PER_TOKEN * limit
    assert refusal.value.tokens is None


def test_a_prompt_of_many_blanks_that_fits_is_read_whole() -> None:
    ids = token_ids(BPE, " " * 128 * 500, add_special_tokens=True, limit=500)
    assert len(ids) == 500


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("make", [tiny_tokenizer, byte_level_tokenizer], ids=["words", "bytes"])
def test_the_window_over_a_long_word_stops_growing(
    text: str, make: Callable[[], tokenizers.Tokenizer], read: list[int]
) -> None:
    specials = SPECIAL_TOKENS["bert" if make is tiny_tokenizer else "roberta"]
    tokenizer = TextTokenizer(make(), max_tokens=MAX_TOKENS, specials=specials)
    alone = [tokenizer.encode(text), tokenizer.encode_all([text])[0], tokenizer.encode(text, text)]
    assert max(read) <= MAX_CHARACTERS_PER_TOKEN * MAX_TOKENS
    assert all(one.truncated and len(one) <= MAX_TOKENS for one in alone)


def test_many_texts_are_read_in_portions(read: list[int]) -> None:
    tokenizer = TextTokenizer(tiny_tokenizer(), max_tokens=512)
    texts = [f"{number} " * 1_500 for number in range(256)]
    encodings = tokenizer.encode_all(texts)
    assert len(encodings) == 256
    assert max(read) <= 1 << 17


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_context_is_read_only_as_far_as_its_windows_need(text: str, read: list[int]) -> None:
    tokenizer = TextTokenizer(tiny_tokenizer(), max_tokens=MAX_TOKENS)
    (found,) = encode_inputs([InferInput("river", text)], tokenizer, task=QUESTION_ANSWERING)
    assert found.truncated
    assert len(found.encodings) <= WINDOWS
    assert max(read) <= WINDOWS * CHARACTERS_PER_TOKEN * MAX_TOKENS
    whole = tokenizer.windows("river", text[: WINDOWS * CHARACTERS_PER_TOKEN * MAX_TOKENS])[:WINDOWS]
    assert [one.ids.tolist() for one in found.encodings] == [one.ids.tolist() for one in whole]
