"""Lookup tables, chains of them, and chains that are made into one table."""

import json
import resource
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import lmdb
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.errors import HplmError
from inference.hplm import fragments as fr
from inference.hplm.compose import Composition
from inference.hplm.mapped_rows import READ_AHEAD_LOOKUPS, MappedRows
from inference.hplm.plot import COMPOSITION_FILE, INDEX_FILE, JSON_FILE, VECTORS_FILE, PlotChain, PlotTable
from inference.hplm.plot_writer import merge_tables, write_plot
from inference.hplm.quantization import quantize
from tests.unit.plot_lookups import all_vectors, looked_up

VOCAB, HIDDEN = 4, 2
MISSING = VOCAB
FILES = [JSON_FILE, INDEX_FILE, VECTORS_FILE, COMPOSITION_FILE]
META = {"missing_id": MISSING, "alpha": 50}

Fragment = tuple[int, ...]
Ids = NDArray[np.int64]

tokens = st.integers(0, VOCAB - 1)


@st.composite
def fragments_of(draw: st.DrawFn, n: int) -> Fragment:
    """A token with as many neighbours as there are on either side of it, without gaps."""
    centre = n // 2
    first, last = draw(st.integers(0, centre)), draw(st.integers(centre, n - 1))
    return tuple(draw(tokens) if first <= at <= last else MISSING for at in range(n))


def composition(value: float = 0.0, hidden: int = HIDDEN) -> Composition:
    return Composition(
        torch.full((8, hidden), value),
        torch.zeros(2, hidden),
        torch.zeros(4, hidden, 1),
        torch.zeros(1, hidden),
    )


def in_order(found: Sequence[Fragment], n: int = 3) -> Ids:
    """The fragments in the order of their keys."""
    return fr.unique(np.array(found, dtype=np.int64).reshape(-1, n))[1]


def some(count: int) -> Ids:
    """That many tri-grams of a large vocabulary, in order."""
    return fr.unpack(np.arange(count, dtype=np.int64) * 5_000_011)


def vectors_of(fragments: Ids, table: int = 0) -> NDArray[np.float16]:
    """Rows that tell which fragment of which table they are."""
    n = fragments.shape[1]
    rank = np.arange(len(fragments))[:, None, None] + 100 * table
    return (rank + np.linspace(0, 0.5, n * HIDDEN).reshape(1, n, HIDDEN)).astype(np.float16)


def write(
    folder: Path, fragments: Ids, *, table: int = 0, parts: int = 1, dtype: str = "float16"
) -> PlotTable:
    vectors = vectors_of(fragments, table)
    batches = zip(np.array_split(fragments, parts), np.array_split(vectors, parts), strict=True)
    write_plot(folder, batches, META, composition(float(table)), n=fragments.shape[1], dtype=dtype)
    return PlotTable.open(folder)


def in_memory(found: Sequence[Fragment], table: int, n: int = 3) -> PlotTable:
    fragments = in_order(found, n)
    rows = quantize(vectors_of(fragments, table), "float16")
    return PlotTable(fr.pack(fragments), rows, composition(), {"missing_id": MISSING})


def parts_of(wanted: Fragment) -> list[Fragment]:
    """A fragment without more and more of its neighbours, the outermost first: the largest parts first, of
    these the most even, of these the one that sees more of what came before."""
    n, centre = len(wanted), len(wanted) // 2
    extents = [(left, right) for left in range(centre + 1) for right in range(n - centre)]
    extents.sort(key=lambda ends: (-sum(ends), abs(ends[0] - ends[1]), -ends[0]))
    return [
        tuple(t if centre - left <= at <= centre + right else MISSING for at, t in enumerate(wanted))
        for left, right in extents
    ]


def search(chain: Sequence[set[Fragment]], wanted: Fragment) -> tuple[int, Fragment]:
    """The specification: (table, fragment found) by plain sets, in the order of the fall-back."""
    steps = [(table, part) for part in parts_of(wanted) for table in range(len(chain))]
    return next(step for step in steps if step[1] in chain[step[0]])


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@given(data=st.data())
def test_a_lookup_falls_back_as_a_plain_set_would(n: int, data: st.DataObject) -> None:
    fragment = fragments_of(n)
    chain = data.draw(st.lists(st.sets(fragment, max_size=40), min_size=1, max_size=3))
    wanted = data.draw(st.lists(fragment, max_size=30))
    alone = [tuple(t if at == n // 2 else MISSING for at in range(n)) for t in range(VOCAB)]
    chain = [*chain, set(alone)]
    opened = [in_memory(sorted(found), number, n) for number, found in enumerate(chain)]
    answer = looked_up(PlotChain(opened), np.array(wanted, dtype=np.int64).reshape(-1, n))
    vectors = answer.vectors
    assert vectors.shape == (len(wanted), n, HIDDEN)
    for at, ids in enumerate(wanted):
        table, found = search(chain, ids)
        row = int(np.searchsorted(opened[table].keys, fr.pack(np.array(found))))
        assert answer.table[at] == table
        assert np.array_equal(vectors[at], all_vectors(opened[table])[row])
        lone = sum(token != MISSING for token in found) == 1
        assert answer.level[at] == (0 if found == ids else 2 if lone else 1)


def test_a_fragment_without_even_a_unigram_is_an_error_that_names_the_token() -> None:
    chain = PlotChain([in_memory([(MISSING, 1, MISSING)], 0)])
    with pytest.raises(HplmError, match="token 2") as caught:
        chain.search(np.array([[1, 1, 1], [0, 2, 0]], dtype=np.int64))
    assert caught.value.code == "inference_failed"


def test_a_chain_takes_no_table_of_another_root() -> None:
    nothing = quantize(np.zeros((0, 3, HIDDEN + 1)), "float16")
    other = {"missing_id": MISSING}
    stranger = PlotTable(np.zeros(0, dtype=np.int64), nothing, composition(hidden=HIDDEN + 1), other)
    with pytest.raises(HplmError, match="different roots"):
        PlotChain([in_memory([], 0), stranger])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(st.sets(fragments_of(3), max_size=60), st.integers(1, 5))
def test_written_table_is_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, found: set[Fragment], parts: int
) -> None:
    fragments = in_order(sorted(found))
    table = write(tmp_path_factory.mktemp("plot"), fragments, table=3, parts=parts)
    keys = fr.pack(fragments)
    assert np.array_equal(table.keys, keys)
    assert np.array_equal(all_vectors(table), vectors_of(fragments, 3))
    assert torch.equal(table.composition.position_bias, torch.full((8, HIDDEN), 3.0))
    assert table.find(keys).tolist() == list(range(len(keys)))
    absent = np.setdiff1d(np.arange(50), keys)
    assert (table.find(absent) == -1).all()


def test_vectors_in_eight_bits_take_half_the_space_and_err_by_half_a_step_of_their_own_scale(
    tmp_path: Path,
) -> None:
    fragments, hidden = some(200), 64
    draw = np.random.default_rng(0)
    sizes = 10 ** draw.uniform(-3, 2, (200, 3, 1))
    vectors = draw.normal(size=(200, 3, hidden)) * sizes
    vectors[5, 1] = 0
    for dtype in ("float16", "int8"):
        batch = [(fragments, vectors)]
        write_plot(tmp_path / dtype, batch, META, composition(hidden=hidden), n=3, dtype=dtype)
    table = PlotTable.open(tmp_path / "int8")
    error = np.abs(all_vectors(table).astype(np.float64) - vectors)
    step = np.abs(vectors).max(axis=-1, keepdims=True) / 127
    assert (error <= step / 2 + np.abs(vectors) / 500 + 1e-6).all()
    assert (all_vectors(table)[5, 1] == 0).all()
    size = {name: (tmp_path / name / VECTORS_FILE).stat().st_size for name in ("float16", "int8")}
    assert size["int8"] < 0.55 * size["float16"]


def test_a_table_says_how_many_rows_of_each_level_it_has(tmp_path: Path) -> None:
    rows = [(1, 2, 3), (0, 2, 3), (1, 2, MISSING), (MISSING, 2, 3), (MISSING, 2, MISSING)]
    about = write(tmp_path, in_order(rows)).metadata
    assert about["levels"] == {"trigram": 2, "left_bigram": 1, "right_bigram": 1, "unigram": 1}
    assert about["rows"] == 5
    assert about["alpha"] == 50


def test_lookups_skip_a_level_that_is_not_in_the_ladder_also_after_merging(tmp_path: Path) -> None:
    at_end, alone = (1, 2, MISSING), (MISSING, 2, MISSING)
    fragments = in_order([at_end, alone])
    about = {**META, "ladder": ["trigram", "unigram"]}
    write_plot(tmp_path / "one", [(fragments, vectors_of(fragments))], about, composition(), n=3)
    merge_tables([PlotTable.open(tmp_path / "one")] * 2, tmp_path / "merged")
    for name in ("one", "merged"):
        chain = PlotChain([PlotTable.open(tmp_path / name)])
        found = chain.search(np.array([(1, 2, 3), at_end]))
        keys = chain.tables[0].keys[found.row[found.inverse]]
        assert keys.tolist() == fr.pack(np.array([alone, at_end])).tolist()


@pytest.mark.parametrize("at", [[], [0], [2999], [0, 1, 2, 1500, 2999, 1500], list(range(3000))])
def test_rows_may_be_read_ahead_in_any_order(tmp_path: Path, at: list[int]) -> None:
    """Of a file of several pages, whose last is not full."""
    table, rows = write(tmp_path, some(3000)), np.array(at, dtype=np.int64)
    table.read_ahead(rows)
    found = np.empty((len(at), 3, HIDDEN), dtype=np.float16)
    table.read(rows, found)
    assert (found == vectors_of(some(3000))[rows]).all()


def test_rows_are_read_ahead_only_while_look_ups_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, one, asked = write(tmp_path, some(3000)), np.array([7]), list[int]()
    found = np.empty((1, 3, HIDDEN), dtype=np.float16)
    monkeypatch.setattr(MappedRows, "read_ahead", lambda _, at: asked.append(len(at)))

    def look_up(*, faults: int) -> int:
        """How many of 1,000 look-ups were read ahead, of a process with so many major page faults."""
        monkeypatch.setattr(resource, "getrusage", lambda _: SimpleNamespace(ru_majflt=faults))
        asked.clear()
        for _ in range(1000):
            table.read(one, found)
        return len(asked)

    assert look_up(faults=5) == READ_AHEAD_LOOKUPS, "a table that was just opened"
    assert look_up(faults=5) == 0
    assert look_up(faults=6) == READ_AHEAD_LOOKUPS
    assert (found == vectors_of(some(3000))[one]).all()


def test_the_index_maps_big_endian_keys_to_rows(tmp_path: Path) -> None:
    keys = np.array([5, 70_000, 1 << 60], dtype=np.int64)
    write(tmp_path, fr.unpack(keys))
    with (
        lmdb.open(str(tmp_path / INDEX_FILE), subdir=False, readonly=True, lock=False) as index,
        index.begin() as reading,
    ):
        pairs = [(int.from_bytes(k), int.from_bytes(v)) for k, v in reading.cursor()]
    assert pairs == [(5, 0), (70_000, 1), (1 << 60, 2)]


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path / name, some(3000), parts=3)
    for file in FILES:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


@pytest.mark.parametrize(("order", "parts"), [([2, 1], 1), ([3, 4, 4], 1), ([1, 5, 3], 3)])
def test_fragments_out_of_order_are_refused(tmp_path: Path, order: list[int], parts: int) -> None:
    """Within a batch, and from one batch to the next."""
    with pytest.raises(HplmError, match="ascend"):
        write(tmp_path, some(6)[order], parts=parts)


@pytest.mark.parametrize(("number", "dtype"), [(np.inf, "float16"), (np.inf, "int8"), (1e6, "float16")])
def test_vectors_beyond_half_precision_are_refused(tmp_path: Path, number: float, dtype: str) -> None:
    batch = [(some(1), np.full((1, 3, HIDDEN), number))]
    with pytest.raises(HplmError, match="half precision"):
        write_plot(tmp_path, batch, META, composition(), n=3, dtype=dtype)


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("file", FILES)
def test_a_table_with_a_missing_or_cut_file_does_not_open(tmp_path: Path, file: str, damage: str) -> None:
    write(tmp_path, some(10))
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).unlink()
    if damage == "cut":
        (tmp_path / file).write_bytes(content[: len(content) // 2 - 1])
    with pytest.raises(HplmError, match=file) as caught:
        PlotTable.open(tmp_path)
    assert caught.value.code == "corrupt_artifact"


def test_a_table_whose_index_has_fewer_rows_than_it_says_does_not_open(tmp_path: Path) -> None:
    write(tmp_path, some(10))
    about = json.loads((tmp_path / JSON_FILE).read_text())
    (tmp_path / JSON_FILE).write_text(json.dumps({**about, "rows": 11}))
    with pytest.raises(HplmError, match="11 rows"):
        PlotTable.open(tmp_path)


def alone(n: int) -> set[Fragment]:
    return {tuple(token if at == n // 2 else MISSING for at in range(n)) for token in range(VOCAB)}


@pytest.mark.parametrize("n", [2, 3, 5])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(data=st.data())
def test_every_fragment_gets_the_same_answer(
    n: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    fragment = fragments_of(n)
    chain = [*data.draw(st.lists(st.sets(fragment, max_size=30), min_size=2, max_size=3)), alone(n)]
    dtypes = data.draw(st.sampled_from([["float16"], ["int8"]]))
    tables = [
        write(folder / str(at), in_order(sorted(found), n), table=at, dtype=dtypes[0])
        for at, found in enumerate(chain)
    ]
    wanted = np.array(data.draw(st.lists(fragment, min_size=1, max_size=30)), dtype=np.int64).reshape(-1, n)
    # The last two made into one, as the root's table is left alone; then all into one.
    for merged in (2, len(tables)):
        out = folder / f"merged{merged}"
        about = merge_tables(tables[:merged], out)
        shorter = PlotChain([PlotTable.open(out), *tables[merged:]])
        before, after = looked_up(PlotChain(tables), wanted), looked_up(shorter, wanted)
        assert np.array_equal(before.vectors, after.vectors)
        assert np.array_equal(before.level, after.level)
        assert about["rows"] == len(set().union(*chain[:merged]))


def test_at_the_end_of_a_text_the_nearest_unigram_is_found(tmp_path: Path) -> None:
    """Although only the further table has right bigrams, which such a fragment is shortened to first."""
    chains = [[(MISSING, 2, MISSING)], [(MISSING, 2, MISSING), (MISSING, 0, 0)]]
    tables = [write(tmp_path / str(at), in_order(rows), table=at) for at, rows in enumerate(chains)]
    found = looked_up(PlotChain(tables), np.array([[0, 2, MISSING]]))
    assert (found.table.tolist(), found.level.tolist()) == ([0], [2])


def test_merged_table_has_the_position_bias_of_the_nearest(tmp_path: Path) -> None:
    tables = [write(tmp_path / str(at), some(9), table=at) for at in range(2)]
    merge_tables(tables, tmp_path / "out")
    merged = PlotTable.open(tmp_path / "out")
    assert torch.equal(merged.composition.position_bias, tables[0].composition.position_bias)


def test_tables_that_store_their_vectors_differently_meet_in_half_precision(tmp_path: Path) -> None:
    near = write(tmp_path / "near", some(5), dtype="int8")
    far = write(tmp_path / "far", some(9), table=1)
    about = merge_tables([near, far], tmp_path / "out")
    merged = PlotTable.open(tmp_path / "out")
    assert about["dtype"] == "float16"
    assert np.array_equal(all_vectors(merged)[:5], all_vectors(near))
    assert np.array_equal(all_vectors(merged)[5:], all_vectors(far)[5:])
