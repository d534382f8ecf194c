"""PLOTs: tables from fragments to vectors, and chains of them (paper sections 3.2.1 and 5.1, equation 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray

from inference.hplm.artifact_files import read_artifact_json, read_weights, to_float32
from inference.hplm.compose import Composition
from inference.hplm.errors import HplmError
from inference.hplm.fragments import (
    MAX_N,
    MIN_N,
    fallback_order,
    fragment_levels,
    level_count,
    level_names,
    pack,
    shorten,
    unique,
)
from inference.hplm.quantization import DTYPES, read_rows, row_dtype
from inference.hplm.row_cache import SearchResult, gather_rows

JSON_FILE = "plot.json"
INDEX_FILE = "index.lmdb"
VECTORS_FILE = "vectors.bin"
COMPOSITION_FILE = "composition.safetensors"
KEY_TYPE = np.dtype(">i8")

HIT_FULL, HIT_PART, HIT_UNIGRAM = 0, 1, 2
"""The fragment itself, a shorter part of it, its centre alone."""


class PlotTable:
    """One immutable table. `keys` [R] int64 ascending; row i of `rows` [R] (mapped, read-only, see
    `row_dtype`) holds the vectors of `keys[i]`; `composition`, fp32, belongs to the lower layers it was built
    from."""

    def __init__(
        self,
        keys: NDArray[np.int64],
        rows: NDArray[np.void],
        composition: Composition,
        about: dict[str, Any],
    ) -> None:
        self.keys = keys
        self.rows = rows
        self.composition = composition
        self.about = about
        n, hidden = rows.dtype["values"].shape
        self.n, self.hidden = int(n), int(hidden)
        names = level_names(self.n)
        counts = about.get("levels", {})
        self._levels = frozenset(at for at, name in enumerate(names) if counts.get(name, 1))

    @classmethod
    def open(cls, folder: Path) -> "PlotTable":
        """Read the index of the table in `folder` into memory and map its vectors.

        Raises HplmError(corrupt_artifact) when files are absent or contradict each other.
        """
        about = read_artifact_json(folder / JSON_FILE)
        count, row = _shape(about)
        # LMDB maps the file and trusts it: reading a cut one would end the process with SIGBUS.
        _require_size(folder / INDEX_FILE, about.get("index_bytes"))
        keys = _read_index(folder / INDEX_FILE, count)
        rows = _map_rows(folder / VECTORS_FILE, count, row)
        composition = Composition.from_tensors(to_float32(read_weights(folder / COMPOSITION_FILE)))
        if composition.hidden != row["values"].shape[1]:
            raise HplmError("corrupt_artifact", f"{COMPOSITION_FILE} is of width {composition.hidden}")
        return cls(keys, rows, composition, about)

    @property
    def dtype(self) -> str:
        """How its vectors are stored: float16 or int8."""
        return str(self.about["dtype"])

    @property
    def missing_id(self) -> int:
        return int(self.about["missing_id"])

    def __len__(self) -> int:
        return len(self.keys)

    def has_level(self, level: int) -> bool:
        """Whether any fragment of the table is of that level."""
        return level in self._levels

    def read(self, at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        """Write the vectors [k, n, d] of rows `at` [k] to `out`."""
        if len(at):
            read_rows(self.rows, at, out)

    def vectors(self) -> NDArray[np.float16]:
        """All vectors [R, n, d], as a copy."""
        everything = np.empty((len(self), self.n, self.hidden), dtype=np.float16)
        self.read(np.arange(len(self)), everything)
        return everything

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each key, -1 where the table has none."""
        if not len(self.keys):
            return np.full(keys.shape, -1, dtype=np.int64)
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == keys, at, -1)

    def find_singles(self, centres: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each token's uni-gram, -1 where the table has none: what is asked for most, in no order
        that a search could use."""
        known = np.minimum(centres, self.missing_id - 1)
        return np.where(known == centres, self._singles[known], -1)

    @cached_property
    def _singles(self) -> NDArray[np.int64]:
        """The row of each uni-gram of the vocabulary [missing_id]."""
        alone = np.full((self.missing_id, self.n), self.missing_id, dtype=np.int64)
        alone[:, self.n // 2] = np.arange(self.missing_id)
        return self.find(pack(alone))


@dataclass(frozen=True, slots=True)
class ChainLookup:
    """What a chain answered for N fragments, U of them different.

    unique [U, n, d] fp16 with inverse [N] (fragment k has row inverse[k]); level [N] uint8 (0 the fragment
    itself, 1 a shorter part of it, 2 its uni-gram); table [N] uint8, the place in the chain it came from.
    """

    unique: NDArray[np.float16]
    inverse: NDArray[np.int64]
    level: NDArray[np.uint8]
    table: NDArray[np.uint8]

    @property
    def vectors(self) -> NDArray[np.float16]:
        """[N, n, d] fp16, a fresh copy."""
        return self.unique[self.inverse]

    def counts(self) -> tuple[int, int, int]:
        """How many of the N fragments were answered by themselves, by shorter ones, by uni-grams."""
        full, part, single = np.bincount(self.level, minlength=3)
        return int(full), int(part), int(single)


class PlotChain:
    """Tables from the nearest version to the root's, searched in that order."""

    def __init__(self, tables: Sequence[PlotTable]) -> None:
        if not tables:
            raise ValueError("a chain ends at the root's table; this one is empty")
        if len({(table.hidden, table.n, table.missing_id) for table in tables}) > 1:
            raise HplmError("corrupt_artifact", "the tables of a chain belong to different roots")
        self.tables = tuple(tables)

    @property
    def composition(self) -> Composition:
        """What enters after the sum: the nearest table's, fp32."""
        return self.tables[0].composition

    @property
    def n(self) -> int:
        """How many tokens a fragment has."""
        return self.tables[0].n

    @property
    def missing_id(self) -> int:
        return self.tables[0].missing_id

    def lookup(self, fragments: NDArray[np.int64]) -> ChainLookup:
        """Find fragments [N, n] int64 as `search` does, and read the rows once per different fragment."""
        found = self.search(fragments)
        own = gather_rows(self.tables, found)
        inverse = found.inverse
        return ChainLookup(own.rows.numpy(), own.place[inverse], found.level[inverse], found.table[inverse])

    def search(self, fragments: NDArray[np.int64]) -> SearchResult:
        """Find fragments [N, n] int64 with fall-back.

        Level by level, each fragment itself first and its uni-gram last, and each in every table, nearest
        first. Raises HplmError(inference_failed) when not even a uni-gram is found: the root's table holds
        them for its whole vocabulary.
        """
        keys, wanted, inverse = unique(fragments)
        table = np.zeros(len(keys), dtype=np.uint8)
        row = np.full(len(keys), -1, dtype=np.int64)
        level = np.zeros(len(keys), dtype=np.uint8)
        single = level_count(self.n) - 1
        for number, sought in self._steps():
            left = np.flatnonzero(row < 0)
            if not len(left):
                break
            if sought == single:
                found = self.tables[number].find_singles(wanted[left, self.n // 2])
                kind = np.full(len(left), HIT_UNIGRAM)
            elif sought:
                parts = shorten(wanted[left], sought, self.missing_id)
                found = self.tables[number].find(pack(parts))
                # At the ends of a text a fragment lacks neighbours already: its part may be its uni-gram.
                kind = np.where(fragment_levels(parts, self.missing_id) == single, HIT_UNIGRAM, HIT_PART)
            else:
                found = self.tables[number].find(keys[left])
                kind = np.full(len(left), HIT_FULL)
            hit = found >= 0
            at = left[hit]
            row[at], table[at], level[at] = found[hit], number, kind[hit]
        self._check_found(row, wanted)
        return SearchResult(table, row, level, inverse)

    def _steps(self) -> list[tuple[int, int]]:
        """(table, level sought), in the order of the search."""
        return [
            (number, level)
            for level in fallback_order(self.n)
            for number, table in enumerate(self.tables)
            # Any table may hold fragments of the ends of texts, which are complete at any level.
            if not level or table.has_level(level)
        ]

    @staticmethod
    def _check_found(row: NDArray[np.int64], wanted: NDArray[np.int64]) -> None:
        lost = np.flatnonzero(row < 0)
        if len(lost):
            raise HplmError(
                "inference_failed",
                f"no table holds the uni-gram of token {int(wanted[lost[0], wanted.shape[1] // 2])}",
            )


def _shape(about: dict[str, Any]) -> tuple[int, np.dtype[np.void]]:
    """How many rows there are, and what a row looks like."""
    numbers = [about.get(name) for name in ("rows", "hidden", "missing_id", "n")]
    rows, hidden, _, n = (value if isinstance(value, int) else -1 for value in numbers)
    if min(value if isinstance(value, int) else -1 for value in numbers) < 0 or hidden < 1:
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: rows, hidden, missing_id and n must be numbers")
    if not MIN_N <= n <= MAX_N:
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: fragments of {n} tokens are not known")
    if about.get("dtype") not in DTYPES:
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: vectors are {' or '.join(DTYPES)}")
    return rows, row_dtype(about["dtype"], n, hidden)


def _read_index(path: Path, rows: int) -> NDArray[np.int64]:
    try:
        with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as index, index.begin() as reading:
            keys = b"".join(reading.cursor().iternext(keys=True, values=False))
            values = b"".join(reading.cursor().iternext(keys=False, values=True))
    except lmdb.Error as error:
        raise HplmError("corrupt_artifact", f"{INDEX_FILE} cannot be read: {error}") from error
    if len(keys) != rows * 8 or len(values) != rows * 8:
        raise HplmError("corrupt_artifact", f"{INDEX_FILE} does not hold {rows} rows")
    if not np.array_equal(np.frombuffer(values, KEY_TYPE), np.arange(rows)):
        raise HplmError("corrupt_artifact", f"{INDEX_FILE}: rows are not in the order of the keys")
    return np.frombuffer(keys, KEY_TYPE).astype(np.int64)


def _require_size(path: Path, size: object) -> None:
    if not path.is_file():
        raise HplmError("corrupt_artifact", f"{path.name} is missing")
    if path.stat().st_size != size:
        raise HplmError("corrupt_artifact", f"{path.name} is not {size} bytes long")


def _map_rows(path: Path, count: int, row: np.dtype[np.void]) -> NDArray[np.void]:
    _require_size(path, count * row.itemsize)
    if count == 0:  # nothing can be mapped of an empty file
        return np.empty(0, dtype=row)
    mapped = np.memmap(path, dtype=row, mode="r", shape=(count,))
    return mapped.view(np.ndarray)  # the subclass only makes each slice slower
