"""Caches the tokens of words, for tokenizers that encode words independently."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from threading import Lock
from typing import Final

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, normalizers, pre_tokenizers

MAX_WORDS: Final = 1 << 16
MAX_TOKENS: Final = 1 << 18
MAX_CHARACTERS: Final = 1 << 22
_BLANKS: Final = str.maketrans("\t\n\r", "   ")

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a text, without special tokens; int64 arrays.

    ids [T]. offsets [T, 2]: start and end characters. words [T]: the index of each token's word.
    """

    ids: Ints
    offsets: Ints
    words: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, end: int) -> "Tokens":
        """The tokens from ``start`` to ``end`` (exclusive)."""
        return Tokens(self.ids[start:end], self.offsets[start:end], self.words[start:end])


EncodeTexts = Callable[[Sequence[str]], Sequence[Tokens]]


def encodes_words_independently(tokenizer: tokenizers.Tokenizer) -> bool:
    """Whether the tokens of a word do not depend on the words around it, as in BERT's tokenizer."""
    return (
        isinstance(tokenizer.normalizer, normalizers.BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        and isinstance(tokenizer.model, models.WordPiece)
        and all(token.special for token in tokenizer.get_added_tokens_decoder().values())
    )


class WordTokenCache:
    """Tokenizes texts by ``encode`` with a cache of words. Thread-safe. When full, it is cleared."""

    def __init__(self, encode: EncodeTexts) -> None:
        self._encode = encode
        self._table = _Table()
        self._lock = Lock()

    def tokens(self, texts: Sequence[str]) -> Sequence[Tokens] | None:
        """The tokens of the texts, at least one; None if their words cannot be cached now. Raises what
        ``encode`` raises."""
        words_of = [text.translate(_BLANKS).split(" ") for text in texts]
        words = [word for parts in words_of for word in parts]
        table = self._table
        numbers = table.numbers(words)
        if not numbers.all():
            found = self._add(words)
            if found is None:
                return None
            table, numbers = found, found.numbers(words)
        return table.tokens(numbers, words, [len(parts) for parts in words_of])

    def _add(self, words: Sequence[str]) -> "_Table | None":
        """A table with all these words. None if they are too many for one, or another thread adds some."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            for table in (self._table, _Table()):
                unknown = sorted({word for word in words if word not in table.known})
                if table.add(unknown, self._encode):
                    self._table = table
                    return table
            return None
        finally:
            self._lock.release()


class _Table:
    """Words by number, from 1, and their concatenated tokens. It only grows, so that threads can read it
    while another adds words."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._first, self._count, self._joined = np.zeros((3, MAX_WORDS + 1), np.int64)
        self._ids, self._words = np.zeros((2, MAX_TOKENS), np.int64)
        self._offsets = np.zeros((MAX_TOKENS, 2), np.int64)
        self._tokens = self._characters = 0

    def numbers(self, words: Sequence[str]) -> Ints:
        """The number of each word, or 0."""
        return np.fromiter(map(self.known.get, words, repeat(0)), np.int64, len(words))

    def add(self, words: Sequence[str], encode: EncodeTexts) -> bool:
        """Add words. False, and nothing is added, if there is no room."""
        characters = self._characters + sum(map(len, words))
        if len(self.known) + len(words) > MAX_WORDS or characters > MAX_CHARACTERS:
            return False
        (found,) = encode([" ".join(words)])  # one long text is faster than many short ones
        if self._tokens + len(found) > MAX_TOKENS:
            return False
        starts = _exclusive_cumsum(_lengths(words) + 1)
        firsts = np.searchsorted(found.offsets[:, 0], starts)
        counts = np.diff(np.append(firsts, len(found)))
        word_of = np.repeat(np.arange(len(words)), counts)
        here = slice(self._tokens, self._tokens + len(found))
        within = found.words - found.words[firsts[word_of]]
        self._ids[here], self._words[here] = found.ids, within
        self._offsets[here] = found.offsets - starts[word_of][:, None]
        numbers = np.arange(len(self.known), len(self.known) + len(words)) + 1
        self._first[numbers], self._count[numbers] = firsts + self._tokens, counts
        np.maximum.at(self._joined, numbers[word_of], within + 1)
        self._tokens, self._characters = self._tokens + len(found), characters
        self.known.update(zip(words, numbers.tolist(), strict=True))
        return True

    def tokens(self, numbers: Ints, words: Sequence[str], parts: Sequence[int]) -> list[Tokens]:
        """The tokens of texts with ``parts`` words each, from the numbers of all words."""
        counts = self._count[numbers]
        starts = _exclusive_cumsum(_lengths(words) + 1)
        before = _exclusive_cumsum(self._joined[numbers])
        if len(parts) > 1:  # each text begins at 0
            firsts = np.repeat(_exclusive_cumsum(np.array(parts)), parts)
            starts -= starts[firsts]
            before -= before[firsts]
        word_of = np.repeat(np.arange(len(numbers)), counts)
        at = np.arange(len(word_of)) + (self._first[numbers] - _exclusive_cumsum(counts))[word_of]
        every = Tokens(
            self._ids[at],
            self._offsets[at] + starts[word_of][:, None],
            self._words[at] + before[word_of],
        )
        if len(parts) == 1:
            return [every]
        ends = np.cumsum(np.add.reduceat(counts, np.cumsum([0, *parts[:-1]]))).tolist()
        return [every.part(start, end) for start, end in pairwise([0, *ends])]


def _lengths(words: Sequence[str]) -> Ints:
    return np.fromiter(map(len, words), np.int64, len(words))


def _exclusive_cumsum(sizes: Ints) -> Ints:
    """The exclusive cumulative sum."""
    sums: Ints = sizes.cumsum() - sizes
    return sums
