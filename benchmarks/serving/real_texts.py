"""Texts that people wrote: the public datasets, or else the docstrings of the standard library.

Imports neither Django nor the settings, which it must not depend on: `become_product` removes HMI_DATA_DIR.
"""

import ast
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, normalizers, pre_tokenizers, trainers

from benchmarks.accuracy.data import has_data, plain_texts
from inference.hplm.fragments import LEVEL_LEFT, LEVEL_RIGHT, LEVEL_TRI, extract_all, pack, shorten

Ids = NDArray[np.int64]
DATASETS, DOCSTRINGS = "test files of the datasets", "docstrings of the standard library"
ALPHA: Final = 50.0
"""The coverage that tables have by default."""
LEAST_WORDS: Final = 4
ASKED_OF: Final = 4
"""Of the docstrings, one in so many is asked; the table is built from the others."""
LONGEST: Final = 512
VOCAB: Final = 30_522
UNKNOWN: Final = "[UNK]"


class RealTexts:
    """Texts to ask, of their own lengths, and others of the same kind whose fragments a root's table holds.

    source: where they come from. The table has the fragments that cover the default share of the occurrences
    in ``known``.
    """

    def __init__(self, known: Sequence[str], asked: Sequence[str], source: str) -> None:
        self.asked, self.source = asked, source
        self._known = known
        self._drawn = 0
        self._tokenizer: tokenizers.Tokenizer | None = None

    @classmethod
    def collect(cls) -> Self:
        """What this machine has."""
        if has_data():
            known, asked, source = plain_texts("train"), plain_texts("test"), DATASETS
        else:
            found = list(dict.fromkeys(docstrings()))
            asked = found[::ASKED_OF]
            known = [text for number, text in enumerate(found) if number % ASKED_OF]
            source = DOCSTRINGS
        return cls(known, asked, source)

    def read_with(self, tokenizer_file: Path) -> Self:
        """Count fragments of this tokenizer's tokens."""
        self._tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        return self

    def learn_tokenizer(self, vocabulary: int) -> Self:
        """As `read_with`, for roots of random weights: a WordPiece tokenizer is learned from the table's
        texts."""
        tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocabulary, special_tokens=[UNKNOWN], show_progress=False
        )
        tokenizer.train_from_iterator(self._known, trainer)
        self._tokenizer = tokenizer
        return self

    def draw(self, count: int) -> list[str]:
        """The next so many texts that the table knows."""
        self._drawn += count
        return [self._known[at % len(self._known)] for at in range(self._drawn - count, self._drawn)]

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """The token ids of each text, cut where a root reads no further."""
        return [ids[:LONGEST] for ids in self._read(texts)]

    def ask(self, count: int, *, seed: int) -> list[str]:
        """So many texts to ask; the same for the same seed. Different ones, as far as there are so many."""
        order = np.random.default_rng(seed).permutation(len(self.asked))
        return [self.asked[order[at % len(order)]] for at in range(count)]

    def fragments(self, missing: int) -> Ids:
        """The fragments [F, 3] that the table has besides all uni-grams: of each level the most frequent."""
        whole = extract_all(self._read(self._known), missing)
        levels = (LEVEL_TRI, LEVEL_LEFT, LEVEL_RIGHT)
        return np.concatenate([covering(shorten(whole, level, missing), ALPHA / 100) for level in levels])

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, as it is computed."""
        return list(map(len, self.ids(texts)))

    def _read(self, texts: Sequence[str]) -> list[Ids]:
        assert self._tokenizer is not None, "read_with comes first"
        encoded = self._tokenizer.encode_batch(list(texts))
        return [np.array(each.ids, dtype=np.int64) for each in encoded]


class RealRows:
    """Token ids to ask, of texts that people wrote, read by a tokenizer that is learned from them."""

    def __init__(self) -> None:
        self._texts = RealTexts.collect().learn_tokenizer(VOCAB)
        self._asked = self._texts.ids(self._texts.ask(len(self._texts.asked), seed=0))
        self._at = 0

    @property
    def name(self) -> str:
        """Where the texts come from."""
        return self._texts.source

    def draw(self, count: int) -> list[Ids]:
        """The next so many rows, each of its own length."""
        self._at += count
        return [self._asked[at % len(self._asked)] for at in range(self._at - count, self._at)]

    def fragments(self, missing: int) -> Ids:
        """The fragments [F, 3] that the table has besides all uni-grams, in any order."""
        return self._texts.fragments(missing)


def covering(fragments: Ids, share: float) -> Ids:
    """The most frequent of the fragments [N, 3], as many as make up this share of all."""
    _, first, counts = np.unique(pack(fragments), return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    enough = int(np.searchsorted(np.cumsum(counts[order]), share * len(fragments))) + 1
    chosen: Ids = fragments[first[order[:enough]]]
    return chosen


def docstrings() -> Iterator[str]:
    """The first paragraph of each docstring of the standard library's single modules."""
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                if text.count(" ") + 1 >= LEAST_WORDS:
                    yield text
