"""The token ids that the engine is asked: of real texts, or in the shape of the paper's experiments."""

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.serving.real_texts import RealTexts
from inference.hplm.fragments import LEVEL_LEFT, LEVEL_RIGHT, extract, shorten

Ids = NDArray[np.int64]
VOCAB: Final = 30_522
PHRASES, PHRASE = 20_000, 8
KNOWN_SHARE: Final = 0.6
"""Of the phrases, those whose fragments the table holds; the rest of a text falls back."""
FIRST_WORD: Final = 1000
"""Ids below it are special tokens of a BERT."""


class TokenSource(Protocol):
    """Token ids to ask, and what a root's table knows of them."""

    @property
    def name(self) -> str:
        """For reports, and for the folder of the table."""

    def draw(self, count: int) -> list[Ids]:
        """The next so many rows."""

    def fragments(self, missing: int) -> Ids:
        """The fragments [F, 3] that the table has besides all uni-grams, in any order."""


class RealRows:
    """Texts that people wrote, each of its own length (see `RealTexts`)."""

    def __init__(self) -> None:
        self._texts = RealTexts.collect().learn_tokenizer(VOCAB)
        self._asked = self._texts.ids(self._texts.ask(len(self._texts.asked), seed=0))
        self._at = 0

    @property
    def name(self) -> str:
        return self._texts.source

    def draw(self, count: int) -> list[Ids]:
        self._at += count
        return [self._asked[at % len(self._asked)] for at in range(self._at - count, self._at)]

    def fragments(self, missing: int) -> Ids:
        return self._texts.fragments(missing)


class Phrases:
    """Rows of so many tokens, made of random phrases, of which the table knows most."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._random = np.random.default_rng(0)
        self._phrases = np.random.default_rng(1).integers(FIRST_WORD, VOCAB, (PHRASES, PHRASE))

    @property
    def name(self) -> str:
        return "phrases"

    def draw(self, count: int) -> list[Ids]:
        chosen = self._random.integers(0, PHRASES, (count, self._tokens // PHRASE + 1))
        return list(self._phrases[chosen].reshape(count, -1)[:, : self._tokens])

    def fragments(self, missing: int) -> Ids:
        known = self._phrases[: int(KNOWN_SHARE * PHRASES)]
        full = np.concatenate([extract(phrase, missing) for phrase in known])
        return np.concatenate([full, *(shorten(full, level, missing) for level in (LEVEL_LEFT, LEVEL_RIGHT))])
