"""Text to token ids and back to character offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from inference.hplm.errors import HplmError
from inference.hplm.families import BERT_SPECIAL_TOKENS, SpecialTokens
from inference.hplm.word_token_cache import Tokens, WordTokenCache, encodes_words_independently

# Characters read for each token that fits, before it is known whether the rest of a long text matters.
_CHARS_PER_TOKEN = 16
# Tokens that two windows share: an answer that has no more of them is whole in one of the two.
_OVERLAP = 128


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, or two, as the root sees it: [CLS], tokens, [SEP]; T tokens in all.

    ids [T] int64; offsets [T, 2] int64: (start, end) characters of each token in its own text, (0, 0) for
    special tokens; truncated: tokens of a text were left out; word_index [T] int64: the word a token belongs
    to, counted from 0 in its text, or -1; sequence [T] int64: 0 for a token of the first text, 1 of the
    second, -1 for special ones; types [T] int64: the token types that the model is given. word_starts [T]
    bool: the first token of a word, the one that carries the word's tag.
    """

    ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
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
        firsts, lasts = self.offsets[starts, 0].tolist(), self.offsets[ends - 1, 1].tolist()
        return list(zip(firsts, lasts, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """The tokens of one text that are taken."""

    tokens: Tokens
    truncated: bool = False

    def __len__(self) -> int:
        return len(self.tokens.ids)

    def first(self, count: int) -> "_Segment":
        return _Segment(self.tokens.part(0, count), self.truncated or count < len(self))


class TextTokenizer:
    """A tokenizer bounded to what the root can take. Safe to share between threads.

    specials: how the family spells its special tokens. types: whether a second text is of another type.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        *,
        max_tokens: int,
        specials: SpecialTokens = BERT_SPECIAL_TOKENS,
        types: bool = True,
    ) -> None:
        # Checkpoints bake in truncation and padding of their own.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" typed by a user is text like any other.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self._window = _CHARS_PER_TOKEN * max_tokens
        self.cls_id = self.id_of(specials.cls)
        self.sep_id = self.id_of(specials.sep)
        self._begin, self._end = _special([self.cls_id]), _special([self.sep_id])
        self._between = _special([self.sep_id] * specials.separators)
        self._types = types
        self._memory = WordTokenCache(self._read_together) if encodes_words_independently(tokenizer) else None

    @classmethod
    def from_file(
        cls, path: Path, max_tokens: int, *, specials: SpecialTokens = BERT_SPECIAL_TOKENS, types: bool = True
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
        sizes = _truncated_lengths(len(first), len(second), room)
        return self._framed([first.first(sizes[0]), second.first(sizes[1])])

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        """What `encode` gives of each text, in less time: by all processors at once, and where words are read
        apart only those that were not met before."""
        short = [text for text in texts if len(text) <= self._window]
        read = self._read_together if self._memory is None else self._memory.tokens
        found = iter(read(short) if short else ())
        room = self.max_tokens - 2
        return [
            self._framed(
                [_Segment(next(found)).first(room) if len(text) <= self._window else self._piece(text, room)]
            )
            for text in texts
        ]

    def windows(self, text: str, pair: str) -> list[Encoding]:
        """Encode two texts of which the second may be too long: as many encodings as it takes, each with the
        whole first text (cut to half the room where it is longer) and a stretch of the second. Neighbours
        share tokens, so that an answer is whole in one of them."""
        room = self.max_tokens - 2 - len(self._between)
        overlap = min(_OVERLAP, self.max_tokens // 4)
        first = self._piece(text, room // 2)
        whole = self._whole(pair)
        width = max(1, room - len(first))
        step = max(1, width - overlap)
        starts = range(0, max(1, len(whole) - overlap), step) if len(whole) > width else [0]
        return [self._framed([first, _Segment(whole.part(at, at + width), first.truncated)]) for at in starts]

    def _piece(self, text: str, room: int) -> _Segment:
        window = self._window
        encoded = self._tokens(text[:window])
        # The end of a cut text may be half a word: only what stands before its last word is known for good.
        while window < len(text) and _stable_token_count(encoded.word_ids) <= room:
            window *= 4
            encoded = self._tokens(text[:window])
        return _Segment(_to_tokens(text, encoded)).first(room)

    def _whole(self, text: str) -> Tokens:
        return _to_tokens(text, self._tokens(text))

    def _read_together(self, texts: Sequence[str]) -> list[Tokens]:
        try:
            encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        except TypeError as error:
            raise _not_unicode() from error
        return [_to_tokens(text, each) for text, each in zip(texts, encoded, strict=True)]

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
        return self._framed([_Segment(_arrays(encoded.ids, offsets, index)).first(room)])

    def _tokens(self, text: str) -> tokenizers.Encoding:
        try:
            return self._tokenizer.encode(text, add_special_tokens=False)
        except TypeError as error:
            raise _not_unicode() from error

    def _framed(self, pieces: Sequence[_Segment]) -> Encoding:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP]; some families part the texts by two."""
        parts, numbers = [self._begin], [-1]
        for number, piece in enumerate(pieces):
            after = self._end if number == len(pieces) - 1 else self._between
            parts += [piece.tokens, after]
            numbers += [number, -1]
        sizes = [len(part) for part in parts]
        types = [0, *(at // 2 if self._types else 0 for at in range(len(sizes) - 1))]
        return Encoding(
            ids=np.concatenate([part.ids for part in parts]),
            offsets=np.concatenate([part.offsets for part in parts]),
            truncated=any(piece.truncated for piece in pieces),
            word_index=np.concatenate([part.words for part in parts]),
            sequence=np.repeat(np.array(numbers, dtype=np.int64), sizes),
            types=np.repeat(np.array(types, dtype=np.int64), sizes),
        )


def _arrays(ids: list[int], offsets: list[tuple[int, int]], words: list[int]) -> Tokens:
    places = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    return Tokens(np.array(ids, dtype=np.int64), places, np.array(words, dtype=np.int64))


def _special(ids: list[int]) -> Tokens:
    """Tokens that are no part of a text."""
    return _arrays(ids, [(0, 0)] * len(ids), [-1] * len(ids))


def _to_tokens(text: str, encoded: tokenizers.Encoding) -> Tokens:
    return _arrays(encoded.ids, encoded.offsets, _joined_words(text, encoded.offsets, encoded.word_ids))


def _truncated_lengths(first: int, second: int, room: int) -> tuple[int, int]:
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


def _stable_token_count(word_ids: list[int | None]) -> int:
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
