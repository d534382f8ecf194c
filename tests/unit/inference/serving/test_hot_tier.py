"""How the device's memory is shared out among what is to lie there."""

from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.hplm.plot import PlotTable
from inference.hplm.row_cache import RowCache
from inference.serving.hot_tier import HotTier
from tests.unit.tiny_world import TinyWorld, tiny_world

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return tiny_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def tables(world: TinyWorld) -> dict[str, PlotTable]:
    """The root's and a domain's, by digest."""
    return tables_of(world)


def tables_of(world: TinyWorld) -> dict[str, PlotTable]:
    digests = {digest for hplm in world.hplms for digest in hplm.plots}
    return {digest: PlotTable.open(world.folder("plot", digest)) for digest in digests}


def wanted_bytes(tables: Mapping[str, PlotTable]) -> int:
    return sum(2 * len(table) * table.n * table.hidden for table in tables.values())


@given(shares=st.lists(st.floats(0, 2), min_size=1, max_size=5))
def test_the_budget_holds_whatever_it_was_before_and_is_shared_by_size(
    world: TinyWorld, shares: list[float]
) -> None:
    tables = tables_of(world)
    tier = HotTier(CPU)
    for share in shares:
        tier.resize(int(share * wanted_bytes(tables)))
        assert tier.bytes <= tier.budget_bytes
        tier.follow(tables)
        assert tier.bytes <= tier.budget_bytes
        for hot, table in zip(tier.of([*tables]), tables.values(), strict=False):
            assert min(share, 1.0) * len(table) * 0.8 - 1 <= hot.capacity <= share * len(table)


def test_without_room_no_chain_is_asked_what_is_there(tables: dict[str, PlotTable]) -> None:
    tier = HotTier(CPU, 0)
    tier.follow(tables)
    assert (tier.bytes, tier.of([*tables])) == (0, ())


def test_what_a_smaller_budget_does_not_hold_is_given_back_before_anything_is_followed(
    tables: dict[str, PlotTable],
) -> None:
    tier = HotTier(CPU, wanted_bytes(tables))
    tier.follow(tables)
    tier.resize(wanted_bytes(tables) // 2)
    assert 0 < tier.bytes <= wanted_bytes(tables) // 2
    tier.resize(0)
    assert (tier.bytes, tier.of([*tables])) == (0, ())
    tier.resize(wanted_bytes(tables))
    assert tier.bytes == 0
    tier.follow(tables)
    assert tier.bytes == wanted_bytes(tables)


def test_the_rows_of_a_table_that_is_served_no_more_are_given_up(tables: dict[str, PlotTable]) -> None:
    tier, [first, *_] = HotTier(CPU, wanted_bytes(tables) // 2), [*tables]
    tier.follow(tables)
    tier.resize(wanted_bytes(tables))
    tier.follow({first: tables[first]})
    assert [hot.capacity for hot in tier.of([first])] == [len(tables[first])]
    assert tier.bytes == wanted_bytes({first: tables[first]})
    assert tier.of([*tables]) == ()


def test_a_table_keeps_its_rows_when_its_share_hardly_changes(tables: dict[str, PlotTable]) -> None:
    half = wanted_bytes(tables) // 2
    tier = HotTier(CPU, half)
    tier.follow(tables)
    before = [(hot, hot.capacity) for hot in tier.of([*tables])]
    for share in (0.95, 1.05):
        tier.resize(int(share * half))
        tier.follow(tables)
    assert [(hot, hot.capacity) for hot in tier.of([*tables])] == before
    tier.resize(int(0.8 * half))
    assert tier.bytes <= 0.8 * half
    for hot, (was, capacity) in zip(tier.of([*tables]), before, strict=True):
        assert hot is was
        assert hot.capacity < 0.9 * capacity


def test_a_device_without_memory_keeps_no_rows(
    tables: dict[str, PlotTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RowCache) -> None:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(RowCache, "fill", fail)
    tier = HotTier(CPU, wanted_bytes(tables))
    tier.follow(tables)
    assert tier.of([*tables]) == ()
