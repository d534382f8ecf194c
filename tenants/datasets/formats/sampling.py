"""Systematic samples of canonical files: every n-th row, so that the time does not grow with the size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path

from tenants.datasets.formats.examples import example_from_line

SAMPLE_ROWS = 5_000
SAMPLE_BYTES = 1_000_000
"""Takes a tokenizer about a second."""
MAX_FLAGGED_LOCATIONS = 10

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampledFile:
    """A canonical file: a corpus, or a split of a dataset. ``size`` is in bytes."""

    path: Path
    rows: int
    size: int
    split: str | None = None


@dataclass(frozen=True, slots=True)
class RowLocation:
    """The number of a row (from 1), and its split; a corpus has no splits."""

    row: int
    split: str | None = None

    def __str__(self) -> str:
        return str(self.row) if self.split is None else f"{self.row} of {self.split}"


@dataclass(slots=True)
class FlaggedLocations:
    """The count of sampled rows with some property, and the locations of the first of them."""

    rows: int = 0
    first: list[RowLocation] = field(default_factory=list)

    def add(self, location: RowLocation) -> None:
        self.rows += 1
        if len(self.first) < MAX_FLAGGED_LOCATIONS:
            self.first.append(location)

    @property
    def as_text(self) -> str:
        """The first rows, such as ``rows 3, 7 of train; row 1 of test, …``."""
        groups = [
            _as_text([str(location.row) for location in locations], split)
            for split, locations in groupby(self.first, key=lambda location: location.split)
        ]
        return "; ".join(groups) + (", …" if self.rows > len(self.first) else "")


def sample(
    files: Sequence[SampledFile],
    texts_of: Callable[[str], Texts],
    *,
    max_rows: int = SAMPLE_ROWS,
    max_bytes: int = SAMPLE_BYTES,
) -> Iterator[tuple[RowLocation, Texts]]:
    """Every n-th row of all files with its location. n is chosen so that both limits are about met. If these
    rows are longer than most, it ends after twice ``max_bytes``."""
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    step = max(1, -(-rows // max_rows), -(-size // max_bytes))
    left = 2 * max_bytes
    for file in files:
        with file.path.open("rb") as lines:
            for number, line in enumerate(islice(lines, 0, None, step)):
                if left <= 0:
                    return
                left -= len(line)
                yield RowLocation(number * step + 1, file.split), texts_of(line.decode())


def corpus_texts(line: str) -> Texts:
    """The text of a line of a canonical corpus file."""
    return (line.rstrip("\n"),)


def dataset_texts(line: str) -> Texts:
    """The texts that a model reads of a line of a canonical dataset file."""
    return example_from_line(line).texts


def _as_text(rows: Sequence[str], split: str | None) -> str:
    of = "" if split is None else f" of {split}"
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(rows)}{of}"
