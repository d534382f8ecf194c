"""Rows of canonical uploads, drawn evenly, so that a look at them is quick whatever their size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path

from tenants.datasets.formats.examples import example_from_line

ROWS_READ = 5_000
BYTES_READ = 1_000_000
"""About a second of a tokenizer."""

MOST_ROWS_NAMED = 10

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampledPart:
    """A canonical file, the texts of a corpus or a split of a dataset; ``size`` in bytes."""

    path: Path
    rows: int
    size: int
    split: str | None = None


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a row stands, counted from 1; a corpus has no splits."""

    row: int
    split: str | None = None

    def __str__(self) -> str:
        return str(self.row) if self.split is None else f"{self.row} of {self.split}"


@dataclass(slots=True)
class Found:
    """How many of the rows that were read something is true of, and where the first of them stand."""

    rows: int = 0
    first: list[LinePlace] = field(default_factory=list)

    def add(self, place: LinePlace) -> None:
        """It is true of this row."""
        self.rows += 1
        if len(self.first) < MOST_ROWS_NAMED:
            self.first.append(place)

    @property
    def in_words(self) -> str:
        """The first rows, such as ``rows 3, 7 of train; row 1 of test, …``."""
        named = [
            _in_words([str(place.row) for place in places], split)
            for split, places in groupby(self.first, key=lambda place: place.split)
        ]
        return "; ".join(named) + (", …" if self.rows > len(self.first) else "")


def sample(
    parts: Sequence[SampledPart],
    texts_of: Callable[[str], Texts],
    *,
    most_rows: int = ROWS_READ,
    most_bytes: int = BYTES_READ,
) -> Iterator[tuple[LinePlace, Texts]]:
    """Every n-th row of all the parts with its place, n such that both bounds are kept, about."""
    rows, size = sum(part.rows for part in parts), sum(part.size for part in parts)
    step = max(1, -(-rows // most_rows), -(-size // most_bytes))
    for part in parts:
        with part.path.open("rb") as lines:
            for number, line in enumerate(islice(lines, 0, None, step)):
                yield LinePlace(number * step + 1, part.split), texts_of(line.decode())


def corpus_texts(line: str) -> Texts:
    """The text of a line of a canonical corpus."""
    return (line.rstrip("\n"),)


def dataset_texts(line: str) -> Texts:
    """What a model reads of a line of a canonical split."""
    return example_from_line(line).texts


def _in_words(rows: Sequence[str], split: str | None) -> str:
    of = "" if split is None else f" of {split}"
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(rows)}{of}"
