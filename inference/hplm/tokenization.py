"""Text to token ids and back to character offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from inference.hplm.errors import HplmError

# Characters read for each token that fits, before it is known whether the rest of a long text matters.
_CHARS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text as the root sees it: [CLS], at most max_tokens - 2 tokens, [SEP]; T tokens in all.

    ids [T] int64; offsets: (start, end) characters of each token in the text, (0, 0) for [CLS] and [SEP];
    truncated: tokens of the text were left out; word_index [T] int64: the word a token belongs to, counted
    from 0, or -1; word_starts [T] bool: the first token of a word, the one that carries the word's tag.
    """

    ids: NDArray[np.int64]
    offsets: list[tuple[int, int]]
    truncated: bool
    word_index: NDArray[np.int64]

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


class TextTokenizer:
    """A WordPiece tokenizer bounded to what the root can take. Safe to share between threads."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, *, max_tokens: int) -> None:
        # Checkpoints bake in truncation and padding of their own.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" typed by a user is text like any other.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.cls_id = self.id_of("[CLS]")
        self.sep_id = self.id_of("[SEP]")

    @classmethod
    def from_file(cls, path: Path, max_tokens: int) -> "TextTokenizer":
        """Read a tokenizer.json; HplmError(unsupported_checkpoint) when it is none."""
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise HplmError("unsupported_checkpoint", f"{path.name} is not a tokenizer: {error}") from error
        return cls(tokenizer, max_tokens=max_tokens)

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

    def encode(self, text: str) -> Encoding:
        """Encode one text. Any string is taken, also an empty one ([CLS] and [SEP] alone); only lone
        surrogates, which no UTF-8 text has, are HplmError(invalid_encoding)."""
        room = self.max_tokens - 2
        window = _CHARS_PER_TOKEN * self.max_tokens
        while True:
            encoded = self._tokens(text[:window])
            # The end of a cut text may be half a word: only what stands before its last word is known for
            # good.
            if window >= len(text) or _settled(encoded.word_ids) > room:
                break
            window *= 4
        words = _joined_words(text, encoded.offsets, encoded.word_ids)
        truncated = len(encoded.ids) > room
        return self._wrap(encoded.ids[:room], encoded.offsets[:room], words[:room], truncated)

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
        return self._wrap(encoded.ids[:room], offsets[:room], index[:room], len(encoded.ids) > room)

    def _tokens(self, text: str) -> tokenizers.Encoding:
        try:
            return self._tokenizer.encode(text, add_special_tokens=False)
        except TypeError as error:
            raise _not_unicode() from error

    def _wrap(
        self, ids: list[int], offsets: list[tuple[int, int]], words: list[int], truncated: bool
    ) -> Encoding:
        return Encoding(
            ids=np.array([self.cls_id, *ids, self.sep_id], dtype=np.int64),
            offsets=[(0, 0), *offsets, (0, 0)],
            truncated=truncated,
            word_index=np.array([-1, *words, -1], dtype=np.int64),
        )


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
