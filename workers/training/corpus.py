"""Corpora: UTF-8 files of one text a line, read by offset so that they need not fit memory."""

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import tokenizers

from inference.errors import HplmError
from inference.hplm.root_config import RootConfig
from inference.text.tokenization import open_tokenizer
from versiontree.job_settings import MIN_CORPUS_TEXTS

Ids = npt.NDArray[np.int64]

# Longer texts are truncated before they are tokenised: one line must not fill memory.
MAX_TEXT_LENGTH = 1_000_000
_MAX_LINE_LENGTH = 4 * MAX_TEXT_LENGTH
# Characters that are tokenised together: enough to be fast, and about 100 MB in the tokenizer.
_BATCH_CHARACTERS = 500_000


def no_check() -> None:
    """Do nothing: the default where nothing can cancel."""


@dataclass(frozen=True)
class Corpus:
    """The texts of a file, by number; only their offsets are in memory."""

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
                file.seek(int(offset))
                yield _decoded(file.readline(_MAX_LINE_LENGTH), int(offset))


def read_corpus(path: Path, check: Callable[[], None] = no_check) -> Corpus:
    """Index the non-empty lines of `path`. check: called for each line.

    Raises HplmError("corpus_too_small") for fewer than eight texts.
    """
    offsets = array("q")
    with path.open("rb") as file:
        for start, line in _lines(file, path.stat().st_size):
            check()
            if line.strip():
                offsets.append(start)
    _require_texts(len(offsets))
    return Corpus(path, np.asarray(offsets, dtype=np.int64))


def require_texts(path: Path) -> None:
    """Raise HplmError("corpus_too_small") for fewer than eight texts; reads no further than needed."""
    count = 0
    with path.open("rb") as file:
        for _, line in _lines(file, path.stat().st_size):
            count += bool(line.strip())
            if count >= MIN_CORPUS_TEXTS:
                return
    _require_texts(count)


def byte_ranges(path: Path, size: int) -> list[tuple[int, int]]:
    """Split a file into ranges [start, end) of about `size` bytes; a text is in that of its first byte."""
    total = path.stat().st_size
    return [(start, min(start + size, total)) for start in range(0, total, size)]


def texts_between(path: Path, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield the non-empty texts whose lines begin in [start, end), each with the offset after its line.

    Raises HplmError("invalid_encoding") as `Corpus.texts` does.
    """
    with path.open("rb") as file:
        if start:
            file.seek(start - 1)
            _skip_line(file)
        for at, line in _lines(file, end):
            text = _decoded(line, at)
            if text:
                yield file.tell(), text


def _lines(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) for lines that begin before `end`; an overlong line is truncated."""
    while (at := file.tell()) < end and (line := file.readline(_MAX_LINE_LENGTH)):
        if len(line) == _MAX_LINE_LENGTH and not line.endswith(b"\n"):
            _skip_line(file)
        yield at, line


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(_MAX_LINE_LENGTH)) and not rest.endswith(b"\n"):
        pass


def _decoded(line: bytes, offset: int) -> str:
    try:
        return line.decode("utf-8").strip()[:MAX_TEXT_LENGTH]
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(line) == _MAX_LINE_LENGTH:
            return line.decode("utf-8", errors="ignore").strip()[:MAX_TEXT_LENGTH]
        raise HplmError(
            "invalid_encoding", f"The text at byte {offset} of the corpus is not UTF-8."
        ) from error


def _require_texts(found: int) -> None:
    if found < MIN_CORPUS_TEXTS:
        raise HplmError(
            "corpus_too_small", f"The corpus has {found} texts; at least {MIN_CORPUS_TEXTS} are needed."
        )


class CorpusReader:
    """Tokenises texts of any length for a root."""

    def __init__(self, tokenizer_file: Path, config: RootConfig) -> None:
        self.config = config
        self._tokenizer = _open_tokenizer(tokenizer_file)

    def plain(self, text: str) -> Ids:
        """All ids of a text, without special tokens."""
        return self.plain_batch([text])[0]

    def plain_batch(self, texts: list[str]) -> list[Ids]:
        """As `plain`, for many texts at once, several times as fast."""
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [np.asarray(one.ids, dtype=np.int64) for one in encoded]

    def split(self, ids: Ids, longest: int) -> Iterator[Ids]:
        """Split plain ids into sequences `[CLS] … [SEP]` of at most `longest` ids."""
        for start in range(0, len(ids), longest - 2):
            piece = ids[start : start + longest - 2]
            yield np.concatenate(([self.config.cls_id], piece, [self.config.sep_id])).astype(np.int64)

    def sequences(self, texts: Iterable[str]) -> Iterator[Ids]:
        """The sequences of all texts, with special tokens."""
        for batch in self.sequence_batches(texts):
            yield from batch

    def sequence_batches(self, texts: Iterable[str]) -> Iterator[list[Ids]]:
        """As `sequences`, a batch of texts at a time: those that are tokenised together."""
        for batch in _batches(texts):
            plain = self.plain_batch(batch)
            yield [piece for ids in plain for piece in self.split(ids, self.config.max_tokens)]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _open_tokenizer(path: Path) -> tokenizers.Tokenizer:
    tokenizer = open_tokenizer(path)
    # Checkpoints come with truncation and padding settings; "[SEP]" in a text is ordinary text.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer
