from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, pre_tokenizers

from inference.text import word_token_cache
from inference.text.tokenization import Encoding, TextTokenizer
from inference.text.word_token_cache import Tokens, WordTokenCache, encodes_words_independently
from tests.unit.families import byte_level_tokenizer
from tests.unit.tiny import WORDS, tiny_tokenizer

MARKS = [
    "max_tokens",
    "_x",
    "don't",
    "...",
    "\x00",
    "\x1c",
    "\u0301",
    "é",
    "北京",
    "😀",
    "[SEP]",
    "\u00a0",
    "ς",
]
BLANKS = [" ", "  ", "\n", "\t", "\r", "\u2003", ""]
pieces = st.sampled_from([*WORDS[:5], *MARKS, *BLANKS])
texts = st.lists(st.lists(pieces, max_size=12).map("".join), min_size=1, max_size=6)


def new() -> TextTokenizer:
    return TextTokenizer(tiny_tokenizer(), max_tokens=64)


KEPT = new()


def same(one: Encoding, other: Encoding) -> bool:
    names = ("ids", "offsets", "word_index", "sequence", "types")
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    return arrays and one.truncated == other.truncated


def each_alone(tokenizer: TextTokenizer, several: Sequence[str]) -> list[Encoding]:
    return [tokenizer.encode(text) for text in several]


def all_same(found: Sequence[Encoding], expected: Sequence[Encoding]) -> bool:
    return all(same(one, other) for one, other in zip(found, expected, strict=True))


@given(texts)
def test_words_met_before_are_what_the_tokenizer_makes_of_them(several: list[str]) -> None:
    for tokenizer in (KEPT, new()):
        expected = each_alone(tokenizer, several)
        for _ in range(2):
            assert all_same(tokenizer.encode_all(several), expected)


@pytest.mark.parametrize("bound", ["MAX_WORDS", "MAX_TOKENS", "MAX_CHARACTERS"])
def test_a_full_memory_begins_anew_and_one_too_small_does_without(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_token_cache, bound, 40)
    tokenizer = new()
    for count in (3, 30, 3, 300):
        several = [" ".join(f"{word}{number}" for word in WORDS[:3]) for number in range(count)]
        assert all_same(tokenizer.encode_all(several), each_alone(tokenizer, several))


@pytest.mark.parametrize("bound", ["MAX_WORDS", "MAX_TOKENS", "MAX_CHARACTERS"])
def test_it_holds_no_more_than_its_bounds(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_token_cache, bound, 8)
    asked: list[str] = []

    def letters(texts: Sequence[str]) -> list[Tokens]:
        """A token for each letter."""
        asked.extend(texts)
        places = [np.array([at for at, one in enumerate(text) if one != " "], np.int64) for text in texts]
        return [Tokens(at, np.stack([at, at + 1], axis=1), np.arange(len(at))) for at in places]

    memory = WordTokenCache(letters)
    for text in ("a b c d", "a b", "e f g h", "a", "i j", "a", "b"):
        memory.tokens([text])
    # How many tokens there are shows only when they are read: for want of room they may be read again.
    assert [text for text, _ in groupby(asked)] == ["a b c d", "e f g h", "i j", "a", "b"]


def test_threads_share_it() -> None:
    tokenizer = new()
    several = [[f"{word} {thread} {number}" for word in WORDS] for thread in range(4) for number in range(50)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(tokenizer.encode_all, several))
    assert all(all_same(one, each_alone(tokenizer, texts)) for one, texts in zip(found, several, strict=True))


def test_only_what_reads_words_apart_remembers_them() -> None:
    bert, other, added = tiny_tokenizer(), tiny_tokenizer(), tiny_tokenizer()
    other.pre_tokenizer = pre_tokenizers.Metaspace()
    added.add_tokens([AddedToken("river stone", special=False)])
    tried = (bert, other, added, byte_level_tokenizer())
    assert [encodes_words_independently(one) for one in tried] == [True, False, False, False]
