import json
from collections.abc import Sequence
from pathlib import Path

import lmdb
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.hplm import fragments as fr
from inference.hplm.errors import HplmError
from inference.hplm.plot import INDEX_FILE, JSON_FILE, POSITION_FILE, VECTORS_FILE, PlotChain, PlotTable
from inference.hplm.plot_writer import write_plot

VOCAB, HIDDEN = 4, 2
MISSING = VOCAB

Fragment = tuple[int, int, int]

side = st.integers(0, MISSING)
fragment = st.tuples(side, st.integers(0, VOCAB - 1), side)
tables = st.lists(st.sets(fragment, max_size=40), min_size=1, max_size=3)


def vectors_of(keys: NDArray[np.int64], table: int = 0) -> NDArray[np.float16]:
    """Rows that tell which key of which table they are."""
    rank = np.arange(len(keys))[:, None, None] + 100 * table
    return (rank + np.linspace(0, 0.5, 3 * HIDDEN).reshape(1, 3, HIDDEN)).astype(np.float16)


def write(folder: Path, keys: NDArray[np.int64], *, table: int = 0, parts: int = 1) -> PlotTable:
    vectors = vectors_of(keys, table)
    batches = list(zip(np.array_split(keys, parts), np.array_split(vectors, parts), strict=True))
    write_plot(folder, batches, {"missing_id": MISSING, "alpha": 50}, torch.full((8, HIDDEN), float(table)))
    return PlotTable.open(folder)


def in_memory(found: Sequence[Fragment], table: int) -> PlotTable:
    keys = np.sort(fr.pack(np.array(found, dtype=np.int64).reshape(-1, 3)))
    return PlotTable(keys, vectors_of(keys, table), torch.zeros(8, HIDDEN), {"missing_id": MISSING})


def search(chain: Sequence[set[Fragment]], wanted: Fragment) -> tuple[int, Fragment]:
    """The specification: (table, fragment found) by plain dictionaries, in the order of the fall-back."""
    left, centre, right = wanted
    bigrams: list[Fragment] = [(left, centre, MISSING), (MISSING, centre, right)]
    steps = [(table, wanted) for table in range(len(chain))]
    steps += [(table, bigram) for table in range(len(chain)) for bigram in bigrams]
    steps += [(table, (MISSING, centre, MISSING)) for table in range(len(chain))]
    return next(step for step in steps if step[1] in chain[step[0]])


@given(tables, st.lists(fragment, max_size=30))
def test_a_lookup_falls_back_as_a_plain_dictionary_would(
    chain: list[set[Fragment]], wanted: list[Fragment]
) -> None:
    chain = [*chain, {(MISSING, token, MISSING) for token in range(VOCAB)}]
    opened = [in_memory(sorted(found), number) for number, found in enumerate(chain)]
    answer = PlotChain(opened).lookup(np.array(wanted, dtype=np.int64).reshape(-1, 3))
    vectors = answer.vectors
    assert vectors.shape == (len(wanted), 3, HIDDEN)
    for at, ids in enumerate(wanted):
        table, found = search(chain, ids)
        row = int(np.searchsorted(opened[table].keys, fr.pack(np.array(found))))
        assert answer.table[at] == table
        assert np.array_equal(vectors[at], opened[table].vectors[row])
        exact = found == ids
        lone = (found[0] == MISSING) and (found[2] == MISSING)
        assert answer.level[at] == (0 if exact else 2 if lone else 1)
    assert sum(answer.counts()) == len(wanted)
    assert len(answer.unique) == len(set(wanted))


def test_a_fragment_without_even_a_unigram_is_an_error_that_names_the_token() -> None:
    chain = PlotChain([in_memory([(MISSING, 1, MISSING)], 0)])
    with pytest.raises(HplmError, match="token 2") as caught:
        chain.lookup(np.array([[1, 1, 1], [0, 2, 0]], dtype=np.int64))
    assert caught.value.code == "inference_failed"


def test_a_chain_takes_no_table_of_another_root() -> None:
    stranger = PlotTable(
        np.zeros(0, dtype=np.int64),
        np.zeros((0, 3, HIDDEN + 1), np.float16),
        torch.zeros(8, 3),
        {"missing_id": MISSING},
    )
    with pytest.raises(HplmError, match="different roots"):
        PlotChain([in_memory([], 0), stranger])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.sets(fragment, max_size=60), st.integers(1, 5))
def test_what_is_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, found: set[Fragment], parts: int
) -> None:
    keys = np.sort(fr.pack(np.array(sorted(found), dtype=np.int64).reshape(-1, 3)))
    table = write(tmp_path_factory.mktemp("plot"), keys, table=3, parts=parts)
    assert np.array_equal(table.keys, keys)
    assert np.array_equal(table.vectors, vectors_of(keys, 3))
    assert torch.equal(table.position_bias, torch.full((8, HIDDEN), 3.0))
    assert table.find(keys).tolist() == list(range(len(keys)))
    absent = np.setdiff1d(np.arange(50), keys)
    assert (table.find(absent) == -1).all()


def test_a_table_is_just_its_four_files_and_the_index_has_no_lock_file(tmp_path: Path) -> None:
    write(tmp_path, np.arange(1000, dtype=np.int64), parts=7)
    assert {path.name for path in tmp_path.iterdir()} == {JSON_FILE, INDEX_FILE, VECTORS_FILE, POSITION_FILE}


def test_a_table_says_how_many_rows_of_each_level_it_has(tmp_path: Path) -> None:
    rows = np.array(
        [(1, 2, 3), (0, 2, 3), (1, 2, MISSING), (MISSING, 2, 3), (MISSING, 2, MISSING)], dtype=np.int64
    )
    about = write(tmp_path, np.sort(fr.pack(rows))).about
    assert about["levels"] == {"trigram": 2, "left_bigram": 1, "right_bigram": 1, "unigram": 1}
    assert about["rows"] == 5
    assert about["alpha"] == 50


def test_the_index_maps_big_endian_keys_to_rows(tmp_path: Path) -> None:
    keys = np.array([5, 70_000, 1 << 60], dtype=np.int64)
    write(tmp_path, keys)
    with (
        lmdb.open(str(tmp_path / INDEX_FILE), subdir=False, readonly=True, lock=False) as index,
        index.begin() as reading,
    ):
        pairs = [(int.from_bytes(k), int.from_bytes(v)) for k, v in reading.cursor()]
    assert pairs == [(5, 0), (70_000, 1), (1 << 60, 2)]


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    keys = np.arange(3000, dtype=np.int64)
    for name in ("one", "other"):
        write(tmp_path / name, keys, parts=3)
    for file in (JSON_FILE, INDEX_FILE, VECTORS_FILE, POSITION_FILE):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


@pytest.mark.parametrize("keys", [[2, 1], [1, 1], [3, 4, 4]])
def test_keys_out_of_order_are_refused(tmp_path: Path, keys: list[int]) -> None:
    with pytest.raises(HplmError, match="ascend"):
        write(tmp_path, np.array(keys, dtype=np.int64))


def test_keys_out_of_order_across_batches_are_refused(tmp_path: Path) -> None:
    keys = np.array([1, 5, 3], dtype=np.int64)
    with pytest.raises(HplmError, match="ascend"):
        write(tmp_path, keys, parts=3)


def test_vectors_too_large_for_half_precision_are_refused(tmp_path: Path) -> None:
    vectors = np.full((1, 3, HIDDEN), np.inf, dtype=np.float16)
    batch = [(np.array([1], dtype=np.int64), vectors)]
    with pytest.raises(HplmError, match="half precision"):
        write_plot(tmp_path, batch, {"missing_id": MISSING}, torch.zeros(8, HIDDEN))


@pytest.mark.parametrize("file", [JSON_FILE, INDEX_FILE, VECTORS_FILE, POSITION_FILE])
def test_a_table_that_lacks_a_file_does_not_open(tmp_path: Path, file: str) -> None:
    write(tmp_path, np.arange(10, dtype=np.int64))
    (tmp_path / file).unlink()
    with pytest.raises(HplmError, match=file) as caught:
        PlotTable.open(tmp_path)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize("file", [JSON_FILE, INDEX_FILE, VECTORS_FILE, POSITION_FILE])
def test_a_table_with_a_cut_file_does_not_open(tmp_path: Path, file: str) -> None:
    write(tmp_path, np.arange(10, dtype=np.int64))
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2 - 1])
    with pytest.raises(HplmError, match=file) as caught:
        PlotTable.open(tmp_path)
    assert caught.value.code == "corrupt_artifact"


def test_a_table_whose_index_has_fewer_rows_than_it_says_does_not_open(tmp_path: Path) -> None:
    write(tmp_path, np.arange(10, dtype=np.int64))
    about = json.loads((tmp_path / JSON_FILE).read_text())
    (tmp_path / JSON_FILE).write_text(json.dumps({**about, "rows": 11}))
    with pytest.raises(HplmError, match="11 rows"):
        PlotTable.open(tmp_path)
