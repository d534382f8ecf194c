"""How the device's memory is shared out among what is to lie there."""

from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.batcher import BatchLimits
from inference.hplm.plot import PlotTable
from inference.hplm.root_config import RootConfig
from inference.serving.hot_tier import HotTier, free_bytes, left_for_rows
from tests.unit.tiny_world import TinyWorld, tiny_world

CPU = torch.device("cpu")
MIB = 1 << 20


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return tiny_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def tables(world: TinyWorld) -> dict[str, PlotTable]:
    """The root's and a domain's, by digest."""
    digests = {digest for hplm in world.hplms for digest in hplm.plots}
    return {digest: PlotTable.open(world.folder("plot", digest)) for digest in digests}


def wanted_bytes(tables: Mapping[str, PlotTable]) -> int:
    return sum(2 * len(table) * table.n * table.hidden for table in tables.values())


def test_where_there_is_room_for_all_rows_all_are_there(tables: dict[str, PlotTable]) -> None:
    tier = HotTier(CPU)
    tier.follow(tables, wanted_bytes(tables))
    assert tier.bytes == wanted_bytes(tables)
    assert [hot.capacity for hot in tier.of([*tables])] == [len(table) for table in tables.values()]


@given(share=st.floats(0, 2))
def test_the_budget_holds_and_is_shared_by_size(world: TinyWorld, share: float) -> None:
    tables = {
        digest: PlotTable.open(world.folder("plot", digest))
        for digest in {digest for hplm in world.hplms for digest in hplm.plots}
    }
    tier, budget = HotTier(CPU), int(share * wanted_bytes(tables))
    tier.follow(tables, budget)
    assert tier.bytes <= budget
    for hot, table in zip(tier.of([*tables]), tables.values(), strict=False):
        assert hot.capacity == pytest.approx(min(share, 1.0) * len(table), abs=1.1)


def test_without_room_no_chain_is_asked_what_is_there(tables: dict[str, PlotTable]) -> None:
    tier = HotTier(CPU)
    tier.follow(tables, 0)
    assert (tier.bytes, tier.of([*tables])) == (0, ())


def test_the_rows_of_a_table_that_is_served_no_more_are_given_up(tables: dict[str, PlotTable]) -> None:
    tier, [first, *_] = HotTier(CPU), [*tables]
    tier.follow(tables, wanted_bytes(tables) // 2)
    tier.follow({first: tables[first]}, wanted_bytes(tables))
    assert [hot.capacity for hot in tier.of([first])] == [len(tables[first])]
    assert tier.bytes == wanted_bytes({first: tables[first]})
    assert tier.of([*tables]) == ()


def test_a_table_keeps_its_rows_when_its_share_hardly_changes(tables: dict[str, PlotTable]) -> None:
    tier, half = HotTier(CPU), wanted_bytes(tables) // 2
    tier.follow(tables, half)
    before = [(hot, hot.capacity) for hot in tier.of([*tables])]
    tier.follow(tables, int(0.95 * half))
    tier.follow(tables, int(1.05 * half))
    assert [(hot, hot.capacity) for hot in tier.of([*tables])] == before
    tier.follow(tables, int(0.8 * half))
    assert tier.bytes <= 0.8 * half
    for hot, (was, capacity) in zip(tier.of([*tables]), before, strict=True):
        assert hot is was
        assert hot.capacity < 0.9 * capacity


def test_rows_get_what_everything_else_leaves(world: TinyWorld) -> None:
    config = world.root.config

    def left(total: int, *, rows: int = 32, lower: int = 0, pets: int = 0, number_bytes: int = 4) -> int:
        return left_for_rows(
            total,
            [config],
            limits=BatchLimits(rows=rows, tokens=rows * 64),
            lower_bytes=lower,
            pet_bytes=pets,
            number_bytes=number_bytes,
        )

    total = 100 * MIB
    assert 0 < left(total) < total
    assert left(total, lower=10 * MIB) == left(total, pets=10 * MIB) == left(total) - 10 * MIB
    assert left(total, rows=64) < left(total)
    assert left(total, number_bytes=2) > left(total)
    assert left(MIB // 2, lower=MIB) == 0


def test_roots_take_turns_so_that_the_largest_counts(world: TinyWorld) -> None:
    def left(*roots: RootConfig) -> int:
        return left_for_rows(
            100 * MIB, roots, limits=BatchLimits(), lower_bytes=0, pet_bytes=0, number_bytes=4
        )

    assert left(world.root.config, world.root.config) == left(world.root.config) < left() == 100 * MIB


def test_nothing_of_a_processors_memory_is_taken_unless_that_is_wanted() -> None:
    assert free_bytes(CPU) == 0
