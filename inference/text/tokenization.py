"""Tokenizes texts into token ids with character offsets."""

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import tokenizers
from numpy.typing import NDArray

from inference.errors import HplmError, reason
from inference.text.encode import CHARACTERS_PER_TOKEN, GROWTH, encode_batch
from inference.text.sentencepiece import SENTENCEPIECE_FILE, fast_tokenizer
from inference.text.special_tokens import BERT_SPECIAL_TOKENS, SpecialTokens, special_tokens

ROOT_FILE = "root.json"
DECODER_FILE = "decoder.json"
"""The configuration of a root: of an encoder, and of a decoder."""
TOKENIZER_FILE = "tokenizer.json"
MIN_TOKENS: Final = 3
"""Of the longest text: a special token on each side, and one between them."""
MAX_CHARACTERS_PER_TOKEN: Final = CHARACTERS_PER_TOKEN * GROWTH**2
"""Of a long text, so many characters are read at most for each token that fits, even if they are one word."""
_CHARACTERS_PER_TOKEN_OF_WINDOWS: Final = 4
"""As CHARACTERS_PER_TOKEN, of a context that is read in many windows."""
_BATCH_CHARACTERS: Final = 1 << 16
"""Texts of so many characters are read together: the rest of the work on them holds Python's lock."""
_OVERLAP = 128
"""Tokens that two windows share. A shorter answer is whole in one of them."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """A tokenized text or pair of texts with special tokens; T tokens.

    ids [T] int64. offsets [T, 2] int64: start and end characters in the token's text, (0, 0) for special
    tokens. truncated: whether a text was truncated. word_index [T] int64: the token's word in its text, -1
    for special tokens. sequence [T] int64: 0 for the first text, 1 for the second, -1 for special tokens.
    types [T] int64: token types.
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
        """[T] bool: the first token of each word, which has the word's tag."""
        previous = np.concatenate([[-1], self.word_index[:-1]])
        starts: NDArray[np.bool_] = (self.word_index >= 0) & (self.word_index != previous)
        return starts

    def word_spans(self) -> list[tuple[int, int]]:
        """The start and end characters of each word, in the order of `word_starts`."""
        starts = np.flatnonzero(self.word_starts)
        ends = np.append(starts[1:], len(self) - 1)[: len(starts)]
        firsts, lasts = self.offsets[starts, 0].tolist(), self.offsets[ends - 1, 1].tolist()
        return list(zip(firsts, lasts, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a text, without special tokens; int64 arrays.

    ids [T]. offsets [T, 2]: start and end characters. words [T]: the index of each token's word.
    """

    ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    words: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, end: int) -> "Tokens":
        """The tokens from ``start`` to ``end`` (exclusive)."""
        return Tokens(self.ids[start:end], self.offsets[start:end], self.words[start:end])


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """The kept tokens of one text."""

    tokens: Tokens
    truncated: bool = False

    def __len__(self) -> int:
        return len(self.tokens.ids)

    def truncate(self, count: int) -> "_Segment":
        return _Segment(self.tokens.part(0, count), self.truncated or count < len(self))


def open_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a tokenizer.json or spm.model. Raises HplmError(unsupported_checkpoint)."""
    if path.name == SENTENCEPIECE_FILE:
        return fast_tokenizer(path)
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise HplmError("unsupported_checkpoint", f"{path.name} is not a tokenizer: {error}") from error


def root_has_tables(folder: Path) -> bool:
    """Whether the root of that artifact was converted, so that its models can be answered from lookup tables.
    Raises HplmError(corrupt_artifact)."""
    try:
        return json.loads((folder / ROOT_FILE).read_bytes()).get("tables", True) is True
    except (OSError, ValueError, AttributeError) as error:
        raise HplmError("corrupt_artifact", f"{ROOT_FILE} cannot be read: {reason(error)}") from error


class TextTokenizer:
    """A tokenizer that truncates to `max_tokens`. Thread-safe.

    specials: the special tokens of the family. types: whether the second text of a pair has token type 1.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        *,
        max_tokens: int,
        specials: SpecialTokens = BERT_SPECIAL_TOKENS,
        types: bool = True,
    ) -> None:
        # tokenizer.json may have truncation and padding of its own.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" in a text is text.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.specials = specials
        self._window = CHARACTERS_PER_TOKEN * max_tokens
        self.cls_id = self.id_of(specials.cls)
        self.sep_id = self.id_of(specials.sep)
        self._begin, self._end = _special([self.cls_id]), _special([self.sep_id])
        self._between = _special([self.sep_id] * specials.separators)
        self._types = types

    @classmethod
    def from_file(
        cls, path: Path, max_tokens: int, *, family: str = "bert", types: bool = True
    ) -> "TextTokenizer":
        """Read the tokenizer of a family. Raises HplmError(unsupported_checkpoint)."""
        tokenizer = open_tokenizer(path)
        specials = special_tokens(family, lambda token: tokenizer.token_to_id(token) is not None)
        return cls(tokenizer, max_tokens=max_tokens, specials=specials, types=types)

    @classmethod
    def of_root(cls, folder: Path) -> "TextTokenizer":
        """The tokenizer of a root's artifact, by its root.json and tokenizer.json. Raises
        HplmError(corrupt_artifact)."""
        try:
            config = json.loads((folder / ROOT_FILE).read_bytes())
            architecture, max_tokens = config["architecture"], int(config["max_tokens"])
            family, types = architecture["family"], architecture["types"] > 1
            return cls.from_file(folder / TOKENIZER_FILE, max_tokens, family=family, types=types)
        except (OSError, ValueError, TypeError, KeyError, HplmError) as error:
            raise HplmError(
                "corrupt_artifact", f"the tokenizer of the root cannot be read: {reason(error)}"
            ) from error

    def with_max_tokens(self, max_tokens: int) -> "TextTokenizer":
        """The same tokenizer, which truncates to at most `max_tokens`."""
        found = copy.copy(self)
        found.max_tokens = min(self.max_tokens, max_tokens)
        found._window = CHARACTERS_PER_TOKEN * found.max_tokens
        return found

    def save(self, path: Path) -> None:
        """Write tokenizer.json, without truncation and padding."""
        self._tokenizer.save(str(path))

    @property
    def size(self) -> int:
        """The largest token id plus one."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def lower_case(self) -> bool:
        """Whether it makes lower case of a text."""
        normalizer = self._tokenizer.normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    def id_of(self, token: str) -> int:
        """The id of a special token. Raises HplmError(unsupported_checkpoint) if there is none."""
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise HplmError("unsupported_checkpoint", f"the tokenizer has no {token} token")
        return found

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """Encode a text or a pair of texts. Of a pair that is too long, the longer text is truncated first.

        Raises HplmError(invalid_encoding) for lone surrogates.
        """
        limit = self.max_tokens - 2
        if pair is None:
            return self._with_special_tokens([self._beginning(text, limit)])
        limit -= len(self._between)
        first, second = self._beginning(text, limit), self._beginning(pair, limit)
        sizes = _truncated_lengths(len(first), len(second), limit)
        return self._with_special_tokens([first.truncate(sizes[0]), second.truncate(sizes[1])])

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        """Encode many texts: as `encode`, in parallel."""
        limit = self.max_tokens - 2
        short = [text for text in texts if len(text) <= self._window]
        found = iter(
            [tokens for batch in _batches(short) for tokens in self._read_together(batch, limit + 1)]
        )
        return [
            self._with_special_tokens(
                [
                    _Segment(next(found)).truncate(limit)
                    if len(text) <= self._window
                    else self._beginning(text, limit)
                ]
            )
            for text in texts
        ]

    def windows(self, text: str, pair: str, most: int | None = None) -> list[Encoding]:
        """Encode a pair whose second text may be too long, as overlapping windows over the second text.

        Each has the first text, truncated to half of `max_tokens`. Windows share `_OVERLAP` tokens at most.
        If there are more than ``most``, one more than those is returned.
        """
        limit = self.max_tokens - 2 - len(self._between)
        overlap = min(_OVERLAP, self.max_tokens // 4)
        first = self._beginning(text, limit // 2)
        width = max(1, limit - len(first))
        step = max(1, width - overlap)
        if most is None:
            [tokens] = self._read_together([pair])
        else:
            needed = most * step + overlap + 1
            tokens = self._beginning(pair, needed, read=_CHARACTERS_PER_TOKEN_OF_WINDOWS * needed).tokens
        starts = range(0, max(1, len(tokens) - overlap), step) if len(tokens) > width else [0]
        return [
            self._with_special_tokens([first, _Segment(tokens.part(at, at + width), first.truncated)])
            for at in starts
        ]

    def _beginning(self, text: str, limit: int, *, read: int | None = None) -> _Segment:
        """The first ``limit`` tokens. ``read``: of so many characters first, then of more."""
        end = self._window if read is None else read
        longest = MAX_CHARACTERS_PER_TOKEN * max(limit, self.max_tokens)
        [encoded] = encode_batch(self._tokenizer, [text[:end]])
        # The prefix of a text may end within a word: the tokens of its last word may still change.
        while end < min(len(text), longest) and _stable_token_count(encoded.word_ids) <= limit:
            end *= GROWTH
            [encoded] = encode_batch(self._tokenizer, [text[:end]])
        truncated = len(encoded) > limit or end < len(text)
        return _Segment(_to_tokens(text, encoded, limit), truncated)

    def _read_together(self, texts: Sequence[str], most: int | None = None) -> list[Tokens]:
        """The tokens of each text, or its first ``most``."""
        encoded = encode_batch(self._tokenizer, texts)
        return [_to_tokens(text, each, most) for text, each in zip(texts, encoded, strict=True)]

    def encode_words(self, words: Sequence[str]) -> Encoding:
        """Encode a text that is given as words, as in tagged data.

        `word_index` is the index in `words`; a word of control characters has no token. Offsets are those in
        " ".join(words).
        """
        [encoded] = encode_batch(self._tokenizer, [list(words)], is_pretokenized=True)
        limit = self.max_tokens - 2
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])
        index = [word for word in encoded.word_ids if word is not None]
        offsets = [
            (int(starts[w]) + s, int(starts[w]) + e) for w, (s, e) in zip(index, encoded.offsets, strict=True)
        ]
        return self._with_special_tokens([_Segment(_arrays(encoded.ids, offsets, index)).truncate(limit)])

    def _with_special_tokens(self, segments: Sequence[_Segment]) -> Encoding:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP]; some families have two [SEP] between."""
        parts, numbers = [self._begin], [-1]
        for number, segment in enumerate(segments):
            after = self._end if number == len(segments) - 1 else self._between
            parts += [segment.tokens, after]
            numbers += [number, -1]
        sizes = [len(part) for part in parts]
        types = [0, *(at // 2 if self._types else 0 for at in range(len(sizes) - 1))]
        return Encoding(
            ids=np.concatenate([part.ids for part in parts]),
            offsets=np.concatenate([part.offsets for part in parts]),
            truncated=any(segment.truncated for segment in segments),
            word_index=np.concatenate([part.words for part in parts]),
            sequence=np.repeat(np.array(numbers, dtype=np.int64), sizes),
            types=np.repeat(np.array(types, dtype=np.int64), sizes),
        )


def _arrays(ids: list[int], offsets: list[tuple[int, int]], words: list[int]) -> Tokens:
    pairs = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    return Tokens(np.array(ids, dtype=np.int64), pairs, np.array(words, dtype=np.int64))


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in order, about _BATCH_CHARACTERS together."""
    start = characters = 0
    for at, text in enumerate(texts):
        characters += len(text)
        if characters >= _BATCH_CHARACTERS or at == len(texts) - 1:
            yield texts[start : at + 1]
            start, characters = at + 1, 0


def _special(ids: list[int]) -> Tokens:
    """Special tokens, without offsets."""
    return _arrays(ids, [(0, 0)] * len(ids), [-1] * len(ids))


def _to_tokens(text: str, encoded: tokenizers.Encoding, most: int | None = None) -> Tokens:
    """The tokens, or the first ``most``: only those become Python's objects, which takes its lock."""
    if most is not None:
        encoded.truncate(most)
    return _arrays(encoded.ids, encoded.offsets, _joined_words(text, encoded.offsets, encoded.word_ids))


def _truncated_lengths(first: int, second: int, limit: int) -> tuple[int, int]:
    """The truncated lengths of two texts: the longer is truncated first, then both."""
    over = max(0, first + second - limit)
    longer_gives = min(over, abs(first - second))
    if first >= second:
        first -= longer_gives
    else:
        second -= longer_gives
    over -= longer_gives
    return first - over // 2, second - (over - over // 2)


def _stable_token_count(word_ids: list[int | None]) -> int:
    """The number of tokens before the last word."""
    return word_ids.index(word_ids[-1]) if word_ids else 0


def _joined_words(text: str, offsets: list[tuple[int, int]], word_ids: list[int | None]) -> list[int]:
    """The word index of each token. An identifier with underscores (`max_tokens`) is one word."""
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
