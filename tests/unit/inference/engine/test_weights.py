"""Tenants with weights: engine time in proportion to them, and everything that holds without them."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.fairness import FIRST_MS_PER_TOKEN, FairShares
from tests.unit.inference.engine.turns import AHEAD, LONGEST, Engine, arrivals

weights = st.floats(0.1, 10.0)


def weighted(**of: float) -> FairShares:
    return FairShares(lambda tenant: of.get(tenant, 1.0))


def worth_ms(*of: float) -> float:
    """How far apart two may get, in milliseconds for a weight of 1: one that weighs less than that gets as
    much further ahead by its last row."""
    return (AHEAD + LONGEST / min(of)) * FIRST_MS_PER_TOKEN


@pytest.mark.parametrize("slower", [1.0, 4.0], ids=["as expected", "four times slower"])
def test_a_weight_of_two_is_twice_the_time(slower: float) -> None:
    engine = Engine(weighted(heavy=2.0), slower={"heavy": slower, "light": slower})
    for tenant in ("heavy", "light"):
        engine.arrive(tenant, 10, 1000)
    for _ in range(100):
        engine.step()
    assert engine.took_ms["heavy"] == pytest.approx(2 * engine.took_ms["light"], rel=0.1)


@given(arrivals, weights, weights, st.fixed_dictionaries({}, optional=dict.fromkeys("abcd", weights)))
def test_two_with_rows_all_the_time_get_what_their_weights_say(
    pattern: list[list[tuple[str, int, int]]], a: float, b: float, slower: dict[str, float]
) -> None:
    """Whoever comes and goes beside them, and however wrong the expectations are."""
    engine = Engine(weighted(a=a, b=b), slower=slower)
    for tenant, tokens in (("a", 7), ("b", LONGEST)):
        engine.arrive(tenant, tokens, 500)
    # A batch is charged what it really took only afterwards.
    most = worth_ms(a, b) * max([1.0, *slower.values()]) + 1e-9
    for arriving in pattern:
        for tenant, tokens, rows in arriving:
            engine.arrive(tenant, tokens, rows)
        engine.step()
        assert abs(engine.took_ms["a"] / a - engine.took_ms["b"] / b) <= most


@given(arrivals, st.fixed_dictionaries(dict.fromkeys("abcd", weights)))
def test_those_who_have_rows_stay_together(
    pattern: list[list[tuple[str, int, int]]], of: dict[str, float]
) -> None:
    engine = Engine(weighted(**of))
    for arriving in pattern:
        for tenant, tokens, rows in arriving:
            engine.arrive(tenant, tokens, rows)
        engine.step()
        counters = [engine.shares.counter(tenant) for tenant in engine.lines]
        assert not counters or max(counters) - min(counters) <= worth_ms(*of.values()) + 1e-9


@given(st.floats(0.1, 1.0), st.floats(1.0, 10.0), st.integers(2, LONGEST))
def test_a_light_one_never_starves(light: float, heavy: float, tokens: int) -> None:
    """Between two of its rows the heavy one gets what their weights say, and no more."""
    engine = Engine(weighted(light=light, heavy=heavy))
    engine.arrive("heavy", 10, 6000)
    for _ in range(5):
        engine.step()
    engine.arrive("light", tokens, 3)
    heavy_ms = []
    for _ in range(1500):
        if "light" in engine.step():
            heavy_ms.append(engine.took_ms["heavy"])
        if "light" not in engine.lines:
            break
    assert "light" not in engine.lines
    between = tokens * FIRST_MS_PER_TOKEN * heavy / light
    for before, after in pairwise(heavy_ms):
        assert after - before <= between + heavy * worth_ms(light)


def test_weight_earns_no_credit_in_idleness() -> None:
    engine = Engine(weighted(late=4.0))
    engine.arrive("late", 10)
    engine.arrive("busy", 10, 1000)
    for _ in range(100):
        engine.step()
    engine.arrive("late", 10, 1000)
    engine.took_ms = defaultdict(float)
    for _ in range(50):
        engine.step()
    assert engine.took_ms["late"] == pytest.approx(4 * engine.took_ms["busy"], rel=0.1)


def test_a_weight_that_changes_counts_from_then_on() -> None:
    of = {"a": 1.0, "b": 1.0}
    engine = Engine(FairShares(of.__getitem__))
    for tenant in of:
        engine.arrive(tenant, 10, 2000)
    for _ in range(50):
        engine.step()
    assert engine.took_ms["a"] == pytest.approx(engine.took_ms["b"], rel=0.1)
    of["a"] = 3.0
    engine.took_ms = defaultdict(float)
    for _ in range(100):
        engine.step()
    assert engine.took_ms["a"] == pytest.approx(3 * engine.took_ms["b"], rel=0.1)
