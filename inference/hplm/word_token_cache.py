"""Tokens of words that were met before: most words of a text were, and need not be read again."""

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
    """Of one text, without special ones. ids [T]; offsets [T, 2]: (start, end) characters; words [T]: to
    which word each belongs, counted from 0."""

    ids: Ints
    offsets: Ints
    words: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, end: int) -> "Tokens":
        """From the token ``start`` to before ``end``."""
        return Tokens(self.ids[start:end], self.offsets[start:end], self.words[start:end])


EncodeTexts = Callable[[Sequence[str]], Sequence[Tokens]]


def encodes_words_independently(tokenizer: tokenizers.Tokenizer) -> bool:
    """Whether what it makes of a word between blanks depends on nothing around it, as BERT's does. Special
    tokens are taken for text."""
    return (
        isinstance(tokenizer.normalizer, normalizers.BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        and isinstance(tokenizer.model, models.WordPiece)
        and all(token.special for token in tokenizer.get_added_tokens_decoder().values())
    )


class WordTokenCache:
    """What a tokenizer that reads words apart makes of texts; ``read`` asks it. Safe to share between
    threads; when it is full it begins anew."""

    def __init__(self, read: EncodeTexts) -> None:
        self._read = read
        self._table = _Table()
        self._lock = Lock()

    def tokens(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """What ``read`` says of the texts, at least one; what it raises."""
        parted = [text.translate(_BLANKS).split(" ") for text in texts]
        words = [word for parts in parted for word in parts]
        table = self._table
        numbers = table.numbers(words)
        if not numbers.all():
            found = self._learn(words)
            if found is None:
                return self._read(texts)
            table, numbers = found, found.numbers(words)
        return table.tokens(numbers, words, [len(parts) for parts in parted])

    def _learn(self, words: Sequence[str]) -> "_Table | None":
        """The table with all these words; None where they are more than one holds."""
        with self._lock:
            for table in (self._table, _Table()):
                unknown = sorted({word for word in words if word not in table.known})
                if table.learn(unknown, self._read):
                    self._table = table
                    return table
        return None


class _Table:
    """Words by number, from 1, and their tokens behind each other. It only grows: whoever has a number may
    look it up while another thread learns."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._first, self._count, self._joined = np.zeros((3, MAX_WORDS + 1), np.int64)
        self._ids, self._words = np.zeros((2, MAX_TOKENS), np.int64)
        self._offsets = np.zeros((MAX_TOKENS, 2), np.int64)
        self._tokens = self._characters = 0

    def numbers(self, words: Sequence[str]) -> Ints:
        """Of each word its number, or 0."""
        return np.fromiter(map(self.known.get, words, repeat(0)), np.int64, len(words))

    def learn(self, words: Sequence[str], read: EncodeTexts) -> bool:
        """Add words; False, with nothing added, where there is no room."""
        characters = self._characters + sum(map(len, words))
        if len(self.known) + len(words) > MAX_WORDS or characters > MAX_CHARACTERS:
            return False
        (found,) = read([" ".join(words)])  # in one piece: a text of one word takes as long as one of three
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
        """Of texts that have so many words each, by the words' numbers; one blank parts two words."""
        counts, joined = self._count[numbers], self._joined[numbers]
        firsts = np.cumsum([0, *parts[:-1]])
        word_of = np.repeat(np.arange(len(numbers)), counts)
        text_of = np.repeat(np.arange(len(parts)), parts)
        at = np.arange(len(word_of)) - _exclusive_cumsum(counts)[word_of] + self._first[numbers][word_of]
        starts = _exclusive_cumsum(_lengths(words) + 1)
        starts -= starts[firsts][text_of]
        before = _exclusive_cumsum(joined)
        before -= before[firsts][text_of]
        every = Tokens(
            self._ids[at],
            self._offsets[at] + starts[word_of][:, None],
            self._words[at] + before[word_of],
        )
        ends = np.cumsum(np.add.reduceat(counts, firsts)).tolist()
        return [every.part(start, end) for start, end in pairwise([0, *ends])]


def _lengths(words: Sequence[str]) -> Ints:
    return np.fromiter(map(len, words), np.int64, len(words))


def _exclusive_cumsum(sizes: Ints) -> Ints:
    """The sum of all that stand before each."""
    sums: Ints = np.cumsum(sizes) - sizes
    return sums
