"""Tenants get the engine in turn: by measured time and weight, without credit for idleness, without end."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.fairness import ALONE_AFTER, FIRST_MS_PER_TOKEN, LEAST_KEPT, FairShares
from tests.unit.inference.engine.turns import AHEAD, LONGEST, Engine, arrivals

WORTH_MS = (AHEAD + LONGEST) * FIRST_MS_PER_TOKEN


@given(arrivals)
def test_those_who_have_rows_are_never_further_apart_than_a_batch(
    pattern: list[list[tuple[str, int, int]]],
) -> None:
    engine = Engine()
    for arriving in pattern:
        for tenant, tokens, rows in arriving:
            engine.arrive(tenant, tokens, rows)
        engine.step()
        counters = [engine.shares.counter(tenant) for tenant in engine.lines]
        assert not counters or max(counters) - min(counters) <= WORTH_MS + 1e-9


@given(arrivals, st.fixed_dictionaries({}, optional={tenant: st.floats(0.2, 5.0) for tenant in "abcd"}))
def test_two_with_rows_all_the_time_are_served_alike(
    pattern: list[list[tuple[str, int, int]]], slower: dict[str, float]
) -> None:
    engine = Engine(slower=slower)
    for tenant, tokens in (("a", 7), ("b", LONGEST)):
        engine.arrive(tenant, tokens, 500)
    for arriving in pattern:
        for tenant, tokens, rows in arriving:
            engine.arrive(tenant, tokens, rows)
        engine.step()
        # A batch is charged what it really took only afterwards.
        most = WORTH_MS * max([1.0, *slower.values()]) + 1e-9
        assert abs(engine.took_ms["a"] - engine.took_ms["b"]) <= most


@given(arrivals)
def test_nobody_with_rows_is_passed_over_for_long(pattern: list[list[tuple[str, int, int]]]) -> None:
    engine = Engine()
    engine.arrive("flood", 10, 1000)
    unserved: dict[str, int] = defaultdict(int)
    for arriving in pattern:
        for tenant, tokens, rows in arriving:
            engine.arrive(tenant, tokens, rows)
        served = engine.step()
        for tenant in [*engine.lines]:
            unserved[tenant] = 0 if tenant in served else unserved[tenant] + 1
            # Each batch brings four others or more a row nearer to being ahead of it.
            assert unserved[tenant] <= 5 * AHEAD / 2


def test_who_takes_longer_than_expected_gets_fewer_rows() -> None:
    engine = Engine(slower={"slow": 4.0})
    for tenant in ("slow", "quick"):
        engine.arrive(tenant, 10, 1000)
    rows = [tenant for _ in range(100) for tenant in engine.step()]
    assert rows.count("quick") == pytest.approx(4 * rows.count("slow"), rel=0.1)


def test_idleness_earns_nothing() -> None:
    engine = Engine()
    engine.arrive("late", 10)
    engine.arrive("busy", 10, 1000)
    for _ in range(100):
        engine.step()
    engine.arrive("late", 10, 1000)
    engine.took_ms.clear()
    for _ in range(10):
        engine.step()
    assert engine.took_ms["busy"] >= engine.took_ms["late"] - WORTH_MS


def test_a_newcomer_enters_at_the_counter_of_who_only_waits() -> None:
    """Not where the last row of a tenant of small weight began: that row ended long ago."""
    shares = FairShares(lambda tenant: 0.01 if tenant == "low" else 1.0)
    shares.enter("low", 3)
    shares.enter("a", 1000)
    shares.settle("low", shares.charge("low", 60))
    for _ in range(90):
        shares.settle("a", shares.charge("a", 60))
    assert shares.counter("low") == pytest.approx(300.0)
    assert shares.counter("a") == pytest.approx(270.0)
    shares.enter("new", 1000)
    assert shares.counter("new") == pytest.approx(270.0)


@pytest.mark.parametrize("took_ms", [1.0, 30.0])
def test_a_newcomer_enters_where_the_row_in_service_began(took_ms: float) -> None:
    """What the row before it took counts as measured, not as estimated."""
    shares = FairShares()
    shares.enter("busy", 100)
    ended, in_service = shares.charge("busy", 60), shares.charge("busy", 20)
    shares.settle("busy", ended, took_ms)
    shares.enter("first", 1)
    assert shares.counter("first") == pytest.approx(took_ms)
    shares.settle("busy", in_service, took_ms)
    shares.settle("first", shares.charge("first", 1000))
    shares.enter("second", 1)
    assert shares.counter("second") == pytest.approx(2 * took_ms)


def test_what_was_taken_while_nobody_else_wanted_it_is_not_paid_for_later() -> None:
    engine = Engine()
    engine.arrive("early", 10, 200)
    while engine.step():
        continue
    for tenant in ("early", "new"):
        engine.arrive(tenant, 10, 100)
    engine.took_ms.clear()
    for _ in range(10):
        engine.step()
    assert engine.took_ms["early"] >= engine.took_ms["new"] - WORTH_MS


def test_one_that_comes_while_another_floods_is_served_first() -> None:
    engine = Engine()
    engine.arrive("a flood", 10, 1000)
    for _ in range(20):
        engine.step()
    engine.arrive("quiet", 11)
    assert "quiet" in engine.step()


def test_a_newcomer_is_due_before_who_has_a_row_computed_already() -> None:
    shares = FairShares()
    shares.enter("flood", 1000)
    shares.charge("flood", 10)
    shares.enter("quiet", 1)
    lines = {"flood": [10] * 999, "quiet": [10]}
    assert list(shares.due(lines, tokens=lambda tokens: tokens, ahead_tokens=10)) == [10]
    assert shares.counter("quiet") < shares.counter("flood")


def test_single_rows_travel_together_though_their_tenants_stand_apart() -> None:
    shares, tenants = FairShares(), [f"tenant {number}" for number in range(8)]
    shares.enter("waiting", 2)
    for place, tenant in enumerate(tenants):
        shares.enter(tenant, place + 1)
        for _ in range(place):
            shares.charge(tenant, 10)
    lines = {"waiting": [10] * 2} | {tenant: [10] for tenant in tenants}
    assert due_count(shares, lines, ahead=10) == 1 + len(tenants)


def test_batches_are_short_only_while_others_may_come() -> None:
    """A flood may fill what it likes when it is alone, and not when somebody else was there lately."""
    shares = FairShares()
    shares.enter("flood", 1000)
    rows = [10] * 1000
    assert due_count(shares, {"flood": rows}) == 1000
    shares.enter("quiet", 1)
    shares.leave("quiet", 1)
    assert due_count(shares, {"flood": rows}) == AHEAD // 10
    for _ in range(ALONE_AFTER):
        shares.learn(10, 10 * FIRST_MS_PER_TOKEN)
    assert due_count(shares, {"flood": rows}) == 1000


def due_count(shares: FairShares, lines: dict[str, list[int]], ahead: int = AHEAD) -> int:
    return len(list(shares.due(lines, tokens=lambda tokens: tokens, ahead_tokens=ahead)))


def test_what_rows_take_is_learnt_from_batches() -> None:
    shares = FairShares()
    shares.enter("a", 2)
    shares.learn(100, 300.0)
    assert shares.charge("a", 10) == pytest.approx(30.0)
    shares.learn(100, 400.0)
    assert 30.0 < shares.charge("a", 10) < 40.0


def test_only_who_matters_is_remembered() -> None:
    engine = Engine()
    engine.arrive("flood", 10, 6_000)
    for number in range(20 * LEAST_KEPT):
        engine.arrive(f"tenant {number}", 10)
        engine.step()
    assert len(engine.shares) < 3 * LEAST_KEPT
    engine.shares.leave("flood", len(engine.lines["flood"]))
    engine.lines.pop("flood")
    while engine.step():
        continue
    assert len(engine.shares) == 0


def test_where_newcomers_stand_never_sinks() -> None:
    """Though a row that was charged beforehand took less: the second to come must gain nothing by it."""
    shares = FairShares()
    shares.enter("early", 3)
    charged = shares.charge("early", 100)
    shares.charge("early", 100)
    shares.enter("first", 1)
    shares.settle("early", charged, 0.0)
    shares.enter("second", 1)
    assert shares.counter("second") == shares.counter("first") == pytest.approx(charged)


def test_who_took_more_than_others_owes_it_however_many_come_and_go_meanwhile() -> None:
    shares = FairShares()
    for tenant in ("waiting", "debtor"):
        shares.enter(tenant, 1)
    shares.settle("debtor", shares.charge("debtor", 10_000))
    for number in range(3 * LEAST_KEPT):
        shares.enter(f"tenant {number}", 1)
        shares.leave(f"tenant {number}", 1)
    assert shares.counter("debtor") == pytest.approx(10_000 * FIRST_MS_PER_TOKEN)
    assert len(shares) < 3 * LEAST_KEPT
