"""PLOTs: lookup tables from fragments to vectors, and chains of tables (paper, sections 3.2.1 and 5.1)."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray

from inference.errors import HplmError
from inference.hplm.artifact_files import read_artifact_json, read_weights, to_float32
from inference.hplm.compose import Composition
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
from inference.hplm.mapped_rows import MappedRows
from inference.hplm.quantization import DTYPES, read_rows, row_dtype
from inference.hplm.row_cache import SearchResult

JSON_FILE = "plot.json"
INDEX_FILE = "index.lmdb"
VECTORS_FILE = "vectors.bin"
COMPOSITION_FILE = "composition.safetensors"
KEY_TYPE = np.dtype(">i8")

HIT_EXACT, HIT_SHORTER, HIT_UNIGRAM = 0, 1, 2
"""Levels of a hit: the fragment itself, a shorter part of it, or its centre token alone."""


class PlotTable:
    """An immutable lookup table, whose vectors are memory-mapped.

    keys [R] int64, ascending. rows [R] of `row_dtype`, read-only: row i has the vectors [n, d] of keys[i].
    composition: float32, of the lower layers that the table was built from. metadata: plot.json. mapped:
    where the rows lie, None for rows in memory.
    """

    def __init__(
        self,
        keys: NDArray[np.int64],
        rows: NDArray[np.void],
        composition: Composition,
        metadata: dict[str, Any],
        mapped: MappedRows | None = None,
    ) -> None:
        self.keys = keys
        self.rows = rows
        self.composition = composition
        self.metadata = metadata
        self._mapped = mapped
        n, hidden = rows.dtype["values"].shape
        self.n, self.hidden = int(n), int(hidden)
        names = level_names(self.n)
        counts, ladder = metadata.get("levels", {}), metadata.get("ladder", names)
        self._levels = frozenset(
            at for at, name in enumerate(names) if counts.get(name, 1) and name in ladder
        )

    @classmethod
    def open(cls, folder: Path) -> "PlotTable":
        """Open the table in `folder`: read its index into memory, and map its vectors.

        Raises HplmError(corrupt_artifact) if files are missing or contradict each other.
        """
        metadata = read_artifact_json(folder / JSON_FILE)
        count, row = _row_count_and_dtype(metadata)
        # LMDB maps the file. Reading a truncated one would kill the process with SIGBUS.
        _require_size(folder / INDEX_FILE, metadata.get("index_bytes"))
        keys = _read_index(folder / INDEX_FILE, count)
        _require_size(folder / VECTORS_FILE, count * row.itemsize)
        mapped = MappedRows(folder / VECTORS_FILE, row) if count else None  # an empty file cannot be mapped
        rows = np.empty(0, dtype=row) if mapped is None else mapped.rows
        composition = Composition.from_tensors(to_float32(read_weights(folder / COMPOSITION_FILE)))
        if composition.hidden != row["values"].shape[1]:
            raise HplmError("corrupt_artifact", f"{COMPOSITION_FILE} has hidden size {composition.hidden}")
        return cls(keys, rows, composition, metadata, mapped)

    @property
    def dtype(self) -> str:
        """The stored type of the vectors: "float16" or "int8"."""
        return str(self.metadata["dtype"])

    @property
    def missing_id(self) -> int:
        """The id that stands for a missing neighbour: the size of the vocabulary."""
        return int(self.metadata["missing_id"])

    def __len__(self) -> int:
        return len(self.keys)

    def has_level(self, level: int) -> bool:
        """Whether lookups shorten fragments to this level: it is in the table's ladder (default: all levels),
        and the table has fragments of it. Those at the ends of texts may be of any level."""
        return level in self._levels

    def read(self, at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        """Read the vectors of rows ``at`` [k] int64 into ``out`` [k, n, d] float16."""
        if len(at):
            if self._mapped is not None:
                self._mapped.prepare_lookup(at)
            read_rows(self.rows, at, out)

    def read_ahead(self, at: NDArray[np.int64]) -> None:
        """See `MappedRows`; does nothing for rows in memory."""
        if self._mapped is not None:
            self._mapped.read_ahead(at)

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row [...] int64 of each key [...] int64, -1 if the table does not have it."""
        if not len(self.keys):
            return np.full(keys.shape, -1, dtype=np.int64)
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == keys, at, -1)

    def find_unigrams(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each token's unigram, -1 if the table does not have it. By an array, not by `find`:
        unigrams are the most frequent lookups."""
        known = np.minimum(tokens, self.missing_id - 1)
        return np.where(known == tokens, self._unigram_rows[known], -1)

    @cached_property
    def _unigram_rows(self) -> NDArray[np.int64]:
        """The row of each unigram of the vocabulary [missing_id], or -1."""
        unigrams = np.full((self.missing_id, self.n), self.missing_id, dtype=np.int64)
        unigrams[:, self.n // 2] = np.arange(self.missing_id)
        return self.find(pack(unigrams))


class PlotChain:
    """Lookup tables from the nearest version's to the root's, searched in that order."""

    def __init__(self, tables: Sequence[PlotTable]) -> None:
        if not tables:
            raise ValueError("a chain has at least one table")
        if len({(table.hidden, table.n, table.missing_id) for table in tables}) > 1:
            raise HplmError("corrupt_artifact", "the tables of a chain belong to different roots")
        self.tables = tuple(tables)

    @property
    def composition(self) -> Composition:
        """The composition of the nearest table, float32."""
        return self.tables[0].composition

    @property
    def n(self) -> int:
        """The number of tokens of a fragment."""
        return self.tables[0].n

    @property
    def missing_id(self) -> int:
        return self.tables[0].missing_id

    def search(self, fragments: NDArray[np.int64]) -> SearchResult:
        """Find fragments [N, n] int64, or else shorter parts of them.

        Searches level by level, from the fragment itself to its unigram, and each level in all tables, the
        nearest first. Raises HplmError(inference_failed) for a token without a unigram: the root's table has
        one for each token of the vocabulary.
        """
        keys, distinct, inverse = unique(fragments)
        table = np.zeros(len(keys), dtype=np.uint8)
        row = np.full(len(keys), -1, dtype=np.int64)
        level = np.zeros(len(keys), dtype=np.uint8)
        unigram = level_count(self.n) - 1
        incomplete = fragment_levels(distinct, self.missing_id) > 0
        for number, fragment_level in self._steps():
            left = np.flatnonzero(row < 0)
            if not len(left):
                break
            if not self.tables[number].has_level(fragment_level):
                # At the ends of a text a fragment has fewer neighbours, so its part may be of a later level,
                # which a table may have without this one.
                left = left[incomplete[left]]
                if not len(left):
                    continue
            if fragment_level == unigram:
                found = self.tables[number].find_unigrams(distinct[left, self.n // 2])
                hit_level = np.full(len(left), HIT_UNIGRAM)
            elif fragment_level:
                parts = shorten(distinct[left], fragment_level, self.missing_id)
                found = self.tables[number].find(pack(parts))
                hit_level = np.where(
                    fragment_levels(parts, self.missing_id) == unigram, HIT_UNIGRAM, HIT_SHORTER
                )
            else:
                found = self.tables[number].find(keys[left])
                hit_level = np.full(len(left), HIT_EXACT)
            hit = found >= 0
            at = left[hit]
            row[at], table[at], level[at] = found[hit], number, hit_level[hit]
        self._check_found(row, distinct)
        return SearchResult(table, row, level, inverse)

    def _steps(self) -> list[tuple[int, int]]:
        """The pairs (table, level of fragments) to search, in order."""
        unigram = level_count(self.n) - 1
        return [
            (number, level)
            for level in fallback_order(self.n)
            for number, table in enumerate(self.tables)
            if level != unigram or table.has_level(level)
        ]

    @staticmethod
    def _check_found(row: NDArray[np.int64], distinct: NDArray[np.int64]) -> None:
        missing = np.flatnonzero(row < 0)
        if len(missing):
            raise HplmError(
                "inference_failed",
                f"no table has the unigram of token {int(distinct[missing[0], distinct.shape[1] // 2])}",
            )


def _row_count_and_dtype(metadata: dict[str, Any]) -> tuple[int, np.dtype[np.void]]:
    """The number of rows, and their dtype."""
    numbers = [metadata.get(name) for name in ("rows", "hidden", "missing_id", "n")]
    rows, hidden, _, n = (value if isinstance(value, int) else -1 for value in numbers)
    if min(value if isinstance(value, int) else -1 for value in numbers) < 0 or hidden < 1:
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: rows, hidden, missing_id and n must be numbers")
    if not MIN_N <= n <= MAX_N:
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: n is {n}; it must be from {MIN_N} to {MAX_N}")
    if metadata.get("dtype") not in DTYPES:
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: vectors are {' or '.join(DTYPES)}")
    return rows, row_dtype(metadata["dtype"], n, hidden)


def _read_index(path: Path, rows: int) -> NDArray[np.int64]:
    try:
        with (
            lmdb.open(str(path), subdir=False, readonly=True, lock=False) as index,
            index.begin() as txn,
        ):
            keys = b"".join(txn.cursor().iternext(keys=True, values=False))
            values = b"".join(txn.cursor().iternext(keys=False, values=True))
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
