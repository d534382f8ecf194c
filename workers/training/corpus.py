"""Corpora: UTF-8 files of one text a line, read by offset so that their size does not matter."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from inference.hplm.errors import HplmError
from inference.hplm.root_config import RootConfig
from inference.hplm.tokenization import TextTokenizer

Ids = npt.NDArray[np.int64]

MINIMUM_TEXTS = 8
# A text longer than this many characters is cut before it is tokenised: one such line must not fill memory.
LONGEST_TEXT = 1_000_000
_UNBOUNDED = 1 << 30


@dataclass(frozen=True)
class Corpus:
    """The texts of a file, addressed by number without holding them."""

    path: Path
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets)

    def texts(self, numbers: npt.NDArray[np.int64] | None = None) -> Iterator[str]:
        """The texts with these numbers (all of them by default), in this order.

        Raises HplmError("invalid_encoding") naming the byte offset of the text that is not UTF-8.
        """
        wanted = self.offsets if numbers is None else self.offsets[numbers]
        with self.path.open("rb") as file:
            for offset in wanted:
                yield _text_at(file, int(offset))


def _text_at(file: BinaryIO, offset: int) -> str:
    file.seek(offset)
    line = file.readline(4 * LONGEST_TEXT)
    try:
        return line.decode("utf-8").strip()[:LONGEST_TEXT]
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(line) == 4 * LONGEST_TEXT:
            return line.decode("utf-8", errors="ignore").strip()[:LONGEST_TEXT]
        raise HplmError(
            "invalid_encoding", f"The text at byte {offset} of the corpus is not UTF-8."
        ) from error


def read_corpus(path: Path) -> Corpus:
    """Index the non-empty lines of `path`. Raises HplmError("corpus_too_small") for fewer than eight."""
    offsets = []
    position = 0
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                offsets.append(position)
            position += len(line)
    if len(offsets) < MINIMUM_TEXTS:
        raise HplmError(
            "corpus_too_small",
            f"The corpus has {len(offsets)} texts; at least {MINIMUM_TEXTS} are needed.",
        )
    return Corpus(path, np.asarray(offsets, dtype=np.int64))


class CorpusReader:
    """Turns texts into ids without a bound on their length, for a root of this configuration."""

    def __init__(self, tokenizer_file: Path, config: RootConfig) -> None:
        self.config = config
        self._tokenizer = TextTokenizer.from_file(tokenizer_file, _UNBOUNDED)

    def plain(self, text: str) -> Ids:
        """All ids of a text, without [CLS] and [SEP]."""
        return self._tokenizer.encode(text).ids[1:-1]

    def framed(self, ids: Ids, longest: int) -> Iterator[Ids]:
        """Pieces of plain ids as sequences `[CLS] … [SEP]` of at most `longest` ids."""
        for start in range(0, len(ids), longest - 2):
            piece = ids[start : start + longest - 2]
            yield np.concatenate(([self.config.cls_id], piece, [self.config.sep_id])).astype(np.int64)

    def sequences(self, texts: Iterator[str]) -> Iterator[Ids]:
        """Every text, in as many sequences as it takes."""
        for text in texts:
            yield from self.framed(self.plain(text), self.config.max_tokens)
