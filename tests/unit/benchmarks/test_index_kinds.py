"""All kinds of index find the same rows."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.serving import index_kinds
from benchmarks.serving.index_kinds import (
    IN_ORDER,
    SHUFFLED,
    HashIndex,
    draw_batch,
    draw_keys,
    lmdb_index,
    sorted_index,
)

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def keys() -> NDArray[np.int64]:
    """Those of a table."""
    return draw_keys(20_000)


@pytest.mark.parametrize("order", [IN_ORDER, SHUFFLED])
def test_every_kind_finds_what_is_there_and_nothing_else(
    keys: NDArray[np.int64], order: str, tmp_path: Path
) -> None:
    exact = sorted_index(keys)
    wanted = draw_batch(exact, keys, order, seed=1)
    rows = exact(wanted)
    there = rows >= 0
    assert 0.4 < there.mean() < 0.6
    assert (keys[rows[there]] == wanted[there]).all()
    assert not np.isin(wanted[~there], keys).any()
    assert (np.diff(wanted) > 0).all() == (order == IN_ORDER)
    assert (HashIndex(keys).find(wanted) == rows).all()
    with lmdb_index(tmp_path / "index", keys) as (find, size):
        assert (find(wanted) == rows).all()
        assert size > keys.nbytes


def test_a_hash_table_that_is_nearly_full_finds_all_of_its_keys(
    keys: NDArray[np.int64], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_kinds, "FULL", 0.99)
    some = keys[: (1 << 14) - 10]
    assert (HashIndex(some).find(some) == np.arange(len(some))).all()
    assert (HashIndex(some).find(keys[len(some) :]) == -1).all()


def test_it_says_what_each_kind_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_kinds, "QUICK_SIZES", (1000,))
    assert index_kinds.main(["--quick", "--repeats", "2"]) == 0
    told = capsys.readouterr().out
    assert all(kind in told for kind in ("sorted keys", "hash", "LMDB", "hash_vs_sorted_1000_in_order"))
