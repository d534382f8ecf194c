"""Text to token ids and back to character offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from inference.hplm.errors import HplmError
from inference.hplm.families.base import BERT_SPECIALS, Specials

# Characters read for each token that fits, before it is known whether the rest of a long text matters.
_CHARS_PER_TOKEN = 16
# Tokens that two windows share: an answer that has no more of them is whole in one of the two.
_OVERLAP = 128


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or two, as the root sees it: [CLS], tokens, [SEP]; T tokens in all.

    ids [T] int64; offsets: (start, end) characters of each token in its own text, (0, 0) for special tokens;
    truncated: tokens of a text were left out; word_index [T] int64: the word a token belongs to, counted
    from 0 in its text, or -1; sequence [T] int64: 0 for a token of the first text, 1 of the second, -1 for
    special ones; types [T] int64: the token types that the model is given. word_starts [T] bool: the first
    token of a word, the one that carries the word's tag.
    """

    ids: NDArray[np.int64]
    offsets: list[tuple[int, int]]
    truncated: bool
    word_index: NDArray[np.int64]
    sequence: NDArray[np.int64]
    types: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def word_starts(self) -> NDArray[np.bool_]:
        previous = np.concatenate([[-1], self.word_index[:-1]])
        starts: NDArray[np.bool_] = (self.word_index >= 0) & (self.word_index != previous)
        return starts

    def word_spans(self) -> list[tuple[int, int]]:
        """(start, end) characters of each word, in the order of `word_starts`."""
        starts = np.flatnonzero(self.word_starts)
        ends = np.append(starts[1:], len(self) - 1)[: len(starts)]
        return [
            (self.offsets[first][0], self.offsets[end - 1][1])
            for first, end in zip(starts, ends, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Piece:
    """The tokens of one text, without special ones."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int]
    truncated: bool

    def first(self, count: int) -> "_Piece":
        cut = self.truncated or count < len(self.ids)
        return _Piece(self.ids[:count], self.offsets[:count], self.words[:count], cut)


class TextTokenizer:
    """A tokenizer bounded to what the root can take. Safe to share between threads.

    specials: how the family spells its special tokens. types: whether a second text is of another type.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        *,
        max_tokens: int,
        specials: Specials = BERT_SPECIALS,
        types: bool = True,
    ) -> None:
        # Checkpoints bake in truncation and padding of their own.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" typed by a user is text like any other.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.cls_id = self.id_of(specials.cls)
        self.sep_id = self.id_of(specials.sep)
        self._between = [self.sep_id] * specials.separators
        self._types = types

    @classmethod
    def from_file(
        cls, path: Path, max_tokens: int, *, specials: Specials = BERT_SPECIALS, types: bool = True
    ) -> "TextTokenizer":
        """Read a tokenizer.json; HplmError(unsupported_checkpoint) when it is none."""
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise HplmError("unsupported_checkpoint", f"{path.name} is not a tokenizer: {error}") from error
        return cls(tokenizer, max_tokens=max_tokens, specials=specials, types=types)

    def save(self, path: Path) -> None:
        """Write tokenizer.json, without truncation and padding."""
        self._tokenizer.save(str(path))

    @property
    def size(self) -> int:
        """One more than the largest id it can give."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def id_of(self, token: str) -> int:
        """The id of a special token; HplmError(unsupported_checkpoint) when the vocabulary lacks it."""
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise HplmError("unsupported_checkpoint", f"the tokenizer has no {token} token")
        return found

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """Encode one text, or two. Any string is taken, also an empty one ([CLS] and [SEP] alone); only lone
        surrogates, which no UTF-8 text has, are HplmError(invalid_encoding). Of two texts that do not fit,
        the longer is cut first."""
        room = self.max_tokens - 2
        if pair is None:
            return self._framed([self._piece(text, room)])
        room -= len(self._between)
        first, second = self._piece(text, room), self._piece(pair, room)
        sizes = _fitted(len(first.ids), len(second.ids), room)
        return self._framed([first.first(sizes[0]), second.first(sizes[1])])

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        """What `encode` gives of each text, in less than half the time: by all processors at once."""
        window, room = _CHARS_PER_TOKEN * self.max_tokens, self.max_tokens - 2
        try:
            begun = self._tokenizer.encode_batch([text[:window] for text in texts], add_special_tokens=False)
        except TypeError as error:
            raise _not_unicode() from error
        return [
            self._framed([self._piece(text, room, encoded)])
            for text, encoded in zip(texts, begun, strict=True)
        ]

    def windows(self, text: str, pair: str) -> list[Encoding]:
        """Encode two texts of which the second may be too long: as many encodings as it takes, each with the
        whole first text (cut to half the room where it is longer) and a stretch of the second. Neighbours
        share tokens, so that an answer is whole in one of them."""
        room = self.max_tokens - 2 - len(self._between)
        overlap = min(_OVERLAP, self.max_tokens // 4)
        first = self._piece(text, room // 2)
        whole = self._whole(pair)
        width = max(1, room - len(first.ids))
        step = max(1, width - overlap)
        starts = range(0, max(1, len(whole.ids) - overlap), step) if len(whole.ids) > width else [0]
        return [
            self._framed(
                [
                    first,
                    _Piece(
                        whole.ids[at : at + width],
                        whole.offsets[at : at + width],
                        whole.words[at : at + width],
                        first.truncated,
                    ),
                ]
            )
            for at in starts
        ]

    def _piece(self, text: str, room: int, begun: tokenizers.Encoding | None = None) -> _Piece:
        window = _CHARS_PER_TOKEN * self.max_tokens
        encoded = self._tokens(text[:window]) if begun is None else begun
        # The end of a cut text may be half a word: only what stands before its last word is known for good.
        while window < len(text) and _settled(encoded.word_ids) <= room:
            window *= 4
            encoded = self._tokens(text[:window])
        return self._read(text, encoded).first(room)

    def _whole(self, text: str) -> _Piece:
        return self._read(text, self._tokens(text))

    def _read(self, text: str, encoded: tokenizers.Encoding) -> _Piece:
        words = _joined_words(text, encoded.offsets, encoded.word_ids)
        return _Piece(encoded.ids, encoded.offsets, words, truncated=False)

    def encode_words(self, words: Sequence[str]) -> Encoding:
        """Encode text that is already cut into words, as tagged data is.

        `word_index` counts in `words`; a word the tokenizer drops (control characters) has no token.
        Offsets are those of " ".join(words).
        """
        try:
            encoded = self._tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False)
        except TypeError as error:
            raise _not_unicode() from error
        room = self.max_tokens - 2
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])
        index = [word for word in encoded.word_ids if word is not None]
        offsets = [
            (int(starts[w]) + s, int(starts[w]) + e) for w, (s, e) in zip(index, encoded.offsets, strict=True)
        ]
        return self._framed([_Piece(encoded.ids, offsets, index, truncated=False).first(room)])

    def _tokens(self, text: str) -> tokenizers.Encoding:
        try:
            return self._tokenizer.encode(text, add_special_tokens=False)
        except TypeError as error:
            raise _not_unicode() from error

    def _framed(self, pieces: Sequence[_Piece]) -> Encoding:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP]; some families part the texts by two."""
        ids, offsets, words, sequence, types = [self.cls_id], [(0, 0)], [-1], [-1], [0]
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            after = [self.sep_id] if last else self._between
            ids += [*piece.ids, *after]
            offsets += [*piece.offsets, *[(0, 0)] * len(after)]
            words += [*piece.words, *[-1] * len(after)]
            sequence += [*[number] * len(piece.ids), *[-1] * len(after)]
            types += [number if self._types else 0] * (len(piece.ids) + len(after))
        return Encoding(
            ids=np.array(ids, dtype=np.int64),
            offsets=offsets,
            truncated=any(piece.truncated for piece in pieces),
            word_index=np.array(words, dtype=np.int64),
            sequence=np.array(sequence, dtype=np.int64),
            types=np.array(types, dtype=np.int64),
        )


def _fitted(first: int, second: int, room: int) -> tuple[int, int]:
    """How much of two texts fits: the longer gives way until both are of one length."""
    over = max(0, first + second - room)
    longer_gives = min(over, abs(first - second))
    if first >= second:
        first -= longer_gives
    else:
        second -= longer_gives
    over -= longer_gives
    return first - over // 2, second - (over - over // 2)


def _not_unicode() -> HplmError:
    return HplmError("invalid_encoding", "the text holds a lone surrogate, which is not Unicode text")


def _settled(word_ids: list[int | None]) -> int:
    """How many leading tokens stand before the last word."""
    return word_ids.index(word_ids[-1]) if word_ids else 0


def _joined_words(text: str, offsets: list[tuple[int, int]], word_ids: list[int | None]) -> list[int]:
    """Each token's word: the tokenizer's own words, but identifiers kept whole across underscores
    (`max_tokens`)."""
    words: list[int] = []
    for at, (start, _) in enumerate(offsets):
        if at == 0:
            words.append(0)
        elif word_ids[at] == word_ids[at - 1] or (
            start == offsets[at - 1][1] and _in_identifier(text, start)
        ):
            words.append(words[-1])
        else:
            words.append(words[-1] + 1)
    return words


def _in_identifier(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    return (before == "_" and (after.isalnum() or after == "_")) or (after == "_" and before.isalnum())
