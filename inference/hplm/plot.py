"""PLOTs: tables from fragments to vectors, and chains of them (paper sections 3.2.1 and 5.1, equation 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from inference.hplm.errors import HplmError
from inference.hplm.fragments import LEVEL_LEFT, LEVEL_RIGHT, LEVEL_UNI, N, degrade, level_of, pack, unpack
from inference.hplm.json_files import read_artifact_json
from inference.hplm.weights import read_weights, widen

JSON_FILE = "plot.json"
INDEX_FILE = "index.lmdb"
VECTORS_FILE = "vectors.bin"
POSITION_FILE = "position_bias.safetensors"
KEY_TYPE = np.dtype(">i8")

HIT_TRI, HIT_BI, HIT_UNI = 0, 1, 2


class PlotTable:
    """One immutable table. `keys` [R] int64 ascending; row i of `vectors` [R, 3, d] fp16 (mapped,
    read-only) is that of `keys[i]`; `position_bias` [max_tokens, d] fp32 belongs to the lower layers it was
    built from."""

    def __init__(
        self,
        keys: NDArray[np.int64],
        vectors: NDArray[np.float16],
        position_bias: Tensor,
        about: dict[str, Any],
    ) -> None:
        self.keys = keys
        self.vectors = vectors
        self.position_bias = position_bias
        self.about = about

    @classmethod
    def open(cls, folder: Path) -> "PlotTable":
        """Read the index of the table in `folder` into memory and map its vectors.

        Raises HplmError(corrupt_artifact) when files are absent or contradict each other.
        """
        about = read_artifact_json(folder / JSON_FILE)
        rows, hidden = _counts(about)
        # LMDB maps the file and trusts it: reading a cut one would end the process with SIGBUS.
        _require_size(folder / INDEX_FILE, about.get("index_bytes"))
        keys = _read_index(folder / INDEX_FILE, rows)
        vectors = _map_vectors(folder / VECTORS_FILE, rows, hidden)
        bias = widen(read_weights(folder / POSITION_FILE)).get("bias")
        if bias is None or bias.dim() != 2 or bias.shape[1] != hidden:
            raise HplmError("corrupt_artifact", f"{POSITION_FILE} holds no bias of width {hidden}")
        return cls(keys, vectors, bias, about)

    @property
    def hidden(self) -> int:
        return int(self.vectors.shape[2])

    @property
    def missing_id(self) -> int:
        return int(self.about["missing_id"])

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each key, -1 where the table has none."""
        if not len(self.keys):
            return np.full(keys.shape, -1, dtype=np.int64)
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == keys, at, -1)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a chain answered for N fragments, U of them different.

    unique [U, 3, d] fp16 with inverse [N] (fragment n has row inverse[n]); level [N] uint8 (0 the fragment
    itself, 1 a bi-gram of it, 2 its uni-gram); table [N] uint8, the place in the chain it came from.
    """

    unique: NDArray[np.float16]
    inverse: NDArray[np.int64]
    level: NDArray[np.uint8]
    table: NDArray[np.uint8]

    @property
    def vectors(self) -> NDArray[np.float16]:
        """[N, 3, d] fp16, a fresh copy."""
        return self.unique[self.inverse]

    def counts(self) -> tuple[int, int, int]:
        """How many of the N fragments were answered as tri-grams, by bi-grams, by uni-grams."""
        tri, bi, uni = np.bincount(self.level, minlength=3)
        return int(tri), int(bi), int(uni)


class PlotChain:
    """Tables from the nearest version to the root's, searched in that order."""

    def __init__(self, tables: Sequence[PlotTable]) -> None:
        if not tables:
            raise ValueError("a chain ends at the root's table; this one is empty")
        if len({(table.hidden, table.missing_id) for table in tables}) > 1:
            raise HplmError("corrupt_artifact", "the tables of a chain belong to different roots")
        self.tables = tuple(tables)

    @property
    def position_bias(self) -> Tensor:
        """[max_tokens, d] fp32 of the nearest table."""
        return self.tables[0].position_bias

    @property
    def missing_id(self) -> int:
        return self.tables[0].missing_id

    def lookup(self, fragments: NDArray[np.int64]) -> Lookup:
        """Find fragments [N, 3] int64 with fall-back.

        Each fragment itself in every table, nearest first; then per table its left, then its right bi-gram;
        then its uni-gram in every table. Rows are read once per different fragment. Raises
        HplmError(inference_failed) when not even a uni-gram is found: the root's table holds them for its
        whole vocabulary.
        """
        keys, inverse = np.unique(pack(fragments), return_inverse=True)
        table = np.zeros(len(keys), dtype=np.uint8)
        row = np.full(len(keys), -1, dtype=np.int64)
        level = np.zeros(len(keys), dtype=np.uint8)
        wanted = unpack(keys)
        for number, sought in self._steps():
            left = np.flatnonzero(row < 0)
            if not len(left):
                break
            candidates = degrade(wanted[left], sought, self.missing_id)
            found = self.tables[number].find(pack(candidates))
            hit = found >= 0
            at = left[hit]
            row[at], table[at] = found[hit], number
            if sought:
                # A boundary fragment lacks a neighbour already, so its "bi-gram" may be its uni-gram.
                is_uni = level_of(candidates[hit], self.missing_id) == LEVEL_UNI
                level[at] = np.where(is_uni, HIT_UNI, HIT_BI)
        self._check_found(row, wanted)
        unique, place = self._gather(table, row)
        return Lookup(unique, place[inverse], level[inverse], table[inverse])

    def _steps(self) -> list[tuple[int, int]]:
        """(table, level sought), in the order of the search."""
        numbers = range(len(self.tables))
        bigrams = [(number, level) for number in numbers for level in (LEVEL_LEFT, LEVEL_RIGHT)]
        return [(number, 0) for number in numbers] + bigrams + [(number, LEVEL_UNI) for number in numbers]

    def _gather(
        self, table: NDArray[np.uint8], row: NDArray[np.int64]
    ) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
        """The rows of all tables, one table's after the other's, and where each of the wanted came to lie."""
        gathered = np.empty((len(row), N, self.tables[0].hidden), dtype=np.float16)
        place = np.empty(len(row), dtype=np.int64)
        start = 0
        for number, source in enumerate(self.tables):
            at = np.flatnonzero(table == number)
            end = start + len(at)
            place[at] = np.arange(start, end)
            if len(
                at
            ):  # any mode but "raise" lets take write straight into `out`; the rows are known to be there
                np.take(source.vectors, row[at], axis=0, out=gathered[start:end], mode="clip")
            start = end
        return gathered, place

    @staticmethod
    def _check_found(row: NDArray[np.int64], wanted: NDArray[np.int64]) -> None:
        lost = np.flatnonzero(row < 0)
        if len(lost):
            raise HplmError(
                "inference_failed", f"no table holds the uni-gram of token {int(wanted[lost[0], 1])}"
            )


def _counts(about: dict[str, Any]) -> tuple[int, int]:
    rows, hidden, missing = about.get("rows"), about.get("hidden"), about.get("missing_id")
    if (
        not (isinstance(rows, int) and isinstance(hidden, int) and isinstance(missing, int))
        or rows < 0
        or hidden < 1
    ):
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: rows, hidden and missing_id must be numbers")
    if about.get("dtype") != "float16" or about.get("n") != N:
        raise HplmError("corrupt_artifact", f"{JSON_FILE}: only float16 tables of tri-grams are known")
    return rows, hidden


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


def _map_vectors(path: Path, rows: int, hidden: int) -> NDArray[np.float16]:
    _require_size(path, rows * N * hidden * 2)
    if rows == 0:  # nothing can be mapped of an empty file
        return np.empty((0, N, hidden), dtype=np.float16)
    mapped = np.memmap(path, dtype=np.float16, mode="r", shape=(rows, N, hidden))
    return mapped.view(np.ndarray)  # the subclass only makes each slice slower
