"""A chain made into one table answers as the chain did."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_writer import merge_tables
from tests.unit.inference.hplm.test_plot import MISSING, VOCAB, Fragment, fragments_of, in_order, some, write


def alone(n: int) -> set[Fragment]:
    return {tuple(token if at == n // 2 else MISSING for at in range(n)) for token in range(VOCAB)}


@pytest.mark.parametrize("n", [2, 3, 5])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
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
        before, after = PlotChain(tables).lookup(wanted), shorter.lookup(wanted)
        assert np.array_equal(before.vectors, after.vectors)
        assert np.array_equal(before.level, after.level)
        assert about["rows"] == len(set().union(*chain[:merged]))


def test_at_the_end_of_a_text_the_nearest_unigram_is_found(tmp_path: Path) -> None:
    """Although only the further table has right bigrams, which such a fragment is shortened to first."""
    chains = [[(MISSING, 2, MISSING)], [(MISSING, 2, MISSING), (MISSING, 0, 0)]]
    tables = [write(tmp_path / str(at), in_order(rows), table=at) for at, rows in enumerate(chains)]
    found = PlotChain(tables).lookup(np.array([[0, 2, MISSING]]))
    assert (found.table.tolist(), found.level.tolist()) == ([0], [2])


def test_what_enters_after_the_sum_is_the_nearest_table_s(tmp_path: Path) -> None:
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
    assert np.array_equal(merged.vectors()[:5], near.vectors())
    assert np.array_equal(merged.vectors()[5:], far.vectors()[5:])
