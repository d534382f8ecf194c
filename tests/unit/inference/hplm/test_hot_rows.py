"""Rows that lie on the device are the table's own, and those that are asked for most."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.hplm import row_cache
from inference.hplm.quantization import quantize, read_rows
from inference.hplm.row_cache import (
    MAX_EVICTED_SHARE,
    REFRESH_INTERVAL,
    GatheredRows,
    RowCache,
    SearchResult,
    gather_all,
    rows_to_gather,
)
from tests.pretended_cuda import pretended_cuda

CPU = torch.device("cpu")
ROWS = 40


class Table:
    """Rows of random vectors, as a PLOT stores them."""

    n, hidden = 3, 2

    def __init__(self, dtype: str = "float16", seed: int = 0) -> None:
        vectors = np.random.default_rng(seed).standard_normal((ROWS, self.n, self.hidden))
        self._rows = quantize(vectors, dtype)

    def __len__(self) -> int:
        return ROWS

    def read(self, at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        read_rows(self._rows, at, out)

    def vectors(self) -> NDArray[np.float16]:
        out = np.empty((ROWS, self.n, self.hidden), dtype=np.float16)
        self.read(np.arange(ROWS), out)
        return out


def all_rows(found: GatheredRows) -> NDArray[np.float16]:
    """The rows as a batch sees them, one for each different fragment."""
    parts = [found.rows, *(some.rows[torch.from_numpy(some.slots)] for some in found.resident)]
    rows: NDArray[np.float16] = torch.cat(parts).numpy()[found.position]
    return rows


def ask(hot: RowCache, *rows: int, times: int = 1) -> list[int]:
    """Which of these rows are on the device, after so many batches that asked for them."""
    wanted = np.array(rows, dtype=np.int64)
    for _ in range(times):
        found = hot.find(wanted)
    return [row for row, here in zip(rows, found.cached.tolist(), strict=True) if here]


def filled(own: Table, capacity: int = ROWS) -> RowCache:
    """The cache of a table, with all rows if they fit."""
    cache = RowCache(own, capacity, CPU)
    cache.fill()
    return cache


batches = st.lists(st.sets(st.integers(0, ROWS - 1), max_size=12), max_size=150)
capacities = st.lists(st.integers(0, ROWS + 3), min_size=2, max_size=2)


@given(batches, capacities, st.data())
def test_cached_rows_equal_those_of_the_table(
    asked: list[set[int]], capacity: list[int], data: st.DataObject
) -> None:
    tables = [Table("float16", seed=0), Table("int8", seed=1)]
    hot = [filled(own, room) for own, room in zip(tables, capacity, strict=True)]
    for rows in asked:
        of_table = np.array([row % 2 for row in rows], dtype=np.uint8)
        row = np.array(sorted(rows), dtype=np.int64)
        found = SearchResult(of_table, row, np.zeros(len(row), dtype=np.uint8), np.arange(len(row)))
        expected = [tables[of].vectors()[at] for of, at in zip(of_table, row, strict=True)]
        given = all_rows(gather_all([rows_to_gather(tables, found, hot)])[1][0])
        assert np.array_equal(given, np.reshape(expected, given.shape))
        if data.draw(st.integers(0, 20)) == 0:
            hot[0].resize(data.draw(capacities)[0])
        if data.draw(st.integers(0, 20)) == 0:
            hot[0].fill()


def test_a_table_that_fits_is_there_from_the_beginning() -> None:
    assert ask(filled(Table()), *range(ROWS)) == [*range(ROWS)]
    assert filled(Table(), ROWS + 5).capacity == ROWS


def test_most_requested_rows_of_a_larger_table_are_cached() -> None:
    hot = RowCache(Table(), 4, CPU)
    for _ in range(REFRESH_INTERVAL):
        ask(hot, 3, 5, 8, 13, 21)
        ask(hot, 3, 5, 8, 13)
    assert ask(hot, 3, 5, 8, 13, 21, 34) == [3, 5, 8, 13]


def test_rows_no_longer_requested_are_replaced() -> None:
    hot = RowCache(Table(), 4, CPU)
    ask(hot, 0, 1, 2, 3, times=50 * REFRESH_INTERVAL)
    assert ask(hot, 0, 1, 2, 3) == [0, 1, 2, 3]
    ask(hot, 30, 31, 32, 33, times=10 * REFRESH_INTERVAL)
    assert ask(hot, 30, 31, 32, 33) == [30, 31, 32, 33]
    assert ask(hot, 0, 1, 2, 3) == []


@pytest.mark.parametrize("lookups", [REFRESH_INTERVAL - 2, 5 * REFRESH_INTERVAL])
def test_rows_of_a_batch_stay_while_others_are_looked_up(lookups: int) -> None:
    """A batch asks a table once for each chain that ends with it, and the next is looked up before this one
    is computed."""
    own = Table()
    hot, wanted = RowCache(own, 4, CPU), np.array([0, 1, 2, 3])
    ask(hot, *wanted, times=2 * REFRESH_INTERVAL)
    exchanged = 0
    while ask(hot, *wanted):
        named = hot.find(wanted)
        ask(hot, 30, 31, 32, 33, times=lookups)
        found = named.rows[torch.from_numpy(named.slots)].numpy()
        assert np.array_equal(found, own.vectors()[wanted[named.cached]])
        exchanged += len(named.slots) - len(ask(hot, *wanted))
    assert exchanged > 0


def test_a_batch_that_is_under_way_keeps_its_rows_when_the_room_changes() -> None:
    own = Table()
    hot = filled(own)
    named = hot.find(np.array([4, 9]))
    hot.resize(0)
    assert ask(hot, 4, 9) == []
    assert hot.bytes == 0
    assert np.array_equal(named.rows[torch.from_numpy(named.slots)].numpy(), own.vectors()[[4, 9]])


def test_no_more_than_a_share_is_exchanged_at_once() -> None:
    hot = RowCache(Table(), 32, CPU)
    ask(hot, *range(32), times=REFRESH_INTERVAL)
    there = [len(ask(hot, *range(32)))]
    while there[-1] > 24:
        ask(hot, *range(32, 40), times=REFRESH_INTERVAL - 1)
        there.append(len(ask(hot, *range(32))))
    assert there[0] == 32
    assert max(-np.diff(there)) <= np.ceil(32 * MAX_EVICTED_SHARE)


def pieces_of(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "PIECE_BYTES", rows * 2 * Table.n * Table.hidden)


def test_a_table_is_filled_in_pieces_of_which_the_first_are_found_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces_of(10, monkeypatch)
    own, found = Table(), list[list[int]]()
    hot, read = RowCache(own, ROWS, CPU), own.read

    def watched(at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        found.append(ask(hot, 0, 9, 10, 39))
        read(at, out)

    monkeypatch.setattr(own, "read", watched)
    hot.fill()
    assert found == [[], [0, 9], [0, 9, 10], [0, 9, 10]]
    assert ask(hot, 0, 9, 10, 39) == [0, 9, 10, 39]


def test_a_table_that_loses_its_room_is_filled_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces_of(10, monkeypatch)
    own = Table()
    hot, read = RowCache(own, ROWS, CPU), own.read

    def shrunk(at: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        read(at, out)
        hot.resize(2)

    monkeypatch.setattr(own, "read", shrunk)
    hot.fill()
    assert (hot.capacity, ask(hot, *range(ROWS))) == (2, [])


def test_rows_that_come_in_are_copied_in_pieces_and_found_once_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces_of(2, monkeypatch)
    arrived = False

    def is_there(piece: Any) -> bool:
        return arrived

    monkeypatch.setattr(row_cache._Piece, "is_there", property(is_there))
    hot = RowCache(Table(), 4, CPU)
    ask(hot, 3, 5, 8, 13, times=2 * REFRESH_INTERVAL)
    assert ask(hot, 3, 5, 8, 13) == []
    arrived = True
    assert ask(hot, 3, 5, 8, 13) == [3, 5, 8, 13]


def test_rows_reach_a_gpu_while_no_lookup_waits() -> None:
    own = Table()
    with pretended_cuda() as cuda:
        whole, part = (RowCache(own, rows, torch.device("cuda:0")) for rows in (ROWS, 4))
        cuda.clear()
        assert ask(part, 3, 5, 8, 13, times=2 * REFRESH_INTERVAL) == [3, 5, 8, 13]
        assert len(cuda.copies) == 2  # the rows of a piece and their slots
        assert cuda.waits == []
        whole.fill()
        assert len(cuda.waits) == 1  # whoever fills waits for each piece
        for cache, rows in ((whole, [0, 39]), (part, [8, 13])):
            named = cache.find(np.array(rows))
            found = named.rows.index_select(0, torch.from_numpy(named.slots).to(named.rows.device))
            assert np.array_equal(found.cpu().numpy(), own.vectors()[rows])
