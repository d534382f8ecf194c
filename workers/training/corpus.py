"""Corpora: UTF-8 files of one text a line, read by offset so that their size does not matter."""

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import tokenizers

from inference.hplm.errors import HplmError
from inference.hplm.root_config import RootConfig

Ids = npt.NDArray[np.int64]

MINIMUM_TEXTS = 8
# A text longer than this many characters is cut before it is tokenised: one such line must not fill memory.
MAX_TEXT_LENGTH = 1_000_000
_MAX_LINE_LENGTH = 4 * MAX_TEXT_LENGTH
# Characters that are tokenised together: enough to be fast, a hundred megabytes of the tokenizer's own notes.
_BATCH_CHARACTERS = 500_000


def unchecked() -> None:
    """What is called where nobody can ask for a stop."""


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
                file.seek(int(offset))
                yield _decoded(file.readline(_MAX_LINE_LENGTH), int(offset))


def read_corpus(path: Path, check: Callable[[], None] = unchecked) -> Corpus:
    """Index the non-empty lines of `path`. check: called with each. Raises HplmError("corpus_too_small") for
    fewer than eight.
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
    """Raises HplmError("corpus_too_small") for fewer than eight texts; reads no more than it must."""
    found = 0
    with path.open("rb") as file:
        for _, line in _lines(file, path.stat().st_size):
            found += bool(line.strip())
            if found >= MINIMUM_TEXTS:
                return
    _require_texts(found)


def byte_ranges(path: Path, size: int) -> list[tuple[int, int]]:
    """Cut a file into ranges [start, end) of about `size` bytes; a text belongs where its line begins."""
    whole = path.stat().st_size
    return [(start, min(start + size, whole)) for start in range(0, whole, size)]


def texts_between(path: Path, start: int, end: int) -> Iterator[tuple[int, str]]:
    """The non-empty texts whose lines begin within [start, end), each with the offset behind its line.

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
    """Lines from here that begin before `end`, with their offsets; an overlong one is cut, its rest passed
    over.
    """
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
    if found < MINIMUM_TEXTS:
        raise HplmError(
            "corpus_too_small", f"The corpus has {found} texts; at least {MINIMUM_TEXTS} are needed."
        )


class CorpusReader:
    """Turns texts into ids without a bound on their length, for a root of this configuration."""

    def __init__(self, tokenizer_file: Path, config: RootConfig) -> None:
        self.config = config
        self._tokenizer = _open_tokenizer(tokenizer_file)

    def plain(self, text: str) -> Ids:
        """All ids of a text, without the tokens that frame it."""
        return np.asarray(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)

    def plain_batch(self, texts: list[str]) -> list[Ids]:
        """As `plain`, many texts at once and several times as fast."""
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [np.asarray(one.ids, dtype=np.int64) for one in encoded]

    def framed(self, ids: Ids, longest: int) -> Iterator[Ids]:
        """Pieces of plain ids as sequences `[CLS] … [SEP]` of at most `longest` ids."""
        for start in range(0, len(ids), longest - 2):
            piece = ids[start : start + longest - 2]
            yield np.concatenate(([self.config.cls_id], piece, [self.config.sep_id])).astype(np.int64)

    def sequences(self, texts: Iterable[str]) -> Iterator[Ids]:
        """Every text, in as many sequences as it takes."""
        for batch in self.sequence_batches(texts):
            yield from batch

    def sequence_batches(self, texts: Iterable[str]) -> Iterator[list[Ids]]:
        """The sequences of some texts at a time, as many as are tokenised together."""
        for batch in _batches(texts):
            plain = self.plain_batch(batch)
            yield [piece for ids in plain for piece in self.framed(ids, self.config.max_tokens)]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    held = 0
    for text in texts:
        batch.append(text)
        held += len(text)
        if held >= _BATCH_CHARACTERS:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _open_tokenizer(path: Path) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise HplmError("unsupported_checkpoint", f"{path.name} is not a tokenizer: {error}") from error
    # Checkpoints bake in truncation and padding of their own; "[SEP]" in a text is text like any other.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer
