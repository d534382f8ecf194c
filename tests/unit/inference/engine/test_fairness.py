"""Fair shares of the engine: by measured time and weight, without credit for idleness."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.batcher import BatchLimits, batch_size
from inference.engine.fairness import ALONE_AFTER, FIRST_MS_PER_TOKEN, LEAST_KEPT, FairShares

LIMITS = BatchLimits(rows=4, tokens=200)
LONGEST, AHEAD = 50, 100

arrivals = st.lists(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(2, LONGEST), st.integers(1, 6)), max_size=3),
    min_size=1,
    max_size=40,
)


@dataclass
class Engine:
    """Lines of rows, given by their tokens, served batch by batch; ``slower`` is how much longer than
    expected the rows of a tenant take."""

    shares: FairShares = field(default_factory=FairShares)
    slower: dict[str, float] = field(default_factory=dict)
    lines: dict[str, list[int]] = field(default_factory=dict)
    took_ms: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def arrive(self, tenant: str, tokens: int, rows: int = 1) -> None:
        self.lines.setdefault(tenant, []).extend([tokens] * rows)
        self.shares.enter(tenant, rows)

    def step(self) -> list[str]:
        """Serve a batch; the tenants of its rows."""
        if not self.lines:
            return []
        waiting = {
            tenant: [(tenant, n, tokens) for n, tokens in enumerate(line)]
            for tenant, line in self.lines.items()
        }
        due = list(islice(self.shares.due(waiting, tokens=lambda row: row[2], quantum=AHEAD), 64))
        rows = due[: batch_size([tokens for _, _, tokens in due], LIMITS)]
        assert due[0] in rows
        charged = [self.shares.charge(tenant, tokens) for tenant, _, tokens in rows]
        for (tenant, _, tokens), expected in zip(rows, charged, strict=True):
            self._settle(tenant, tokens, expected)
        for tenant, place, _ in sorted(rows, reverse=True):
            del self.lines[tenant][place]
        self.lines = {tenant: line for tenant, line in self.lines.items() if line}
        return [tenant for tenant, _, _ in rows]

    def _settle(self, tenant: str, tokens: int, charged: float) -> None:
        took = tokens * FIRST_MS_PER_TOKEN * self.slower.get(tenant, 1.0)
        self.shares.settle(tenant, charged, took)
        self.took_ms[tenant] += took


WORTH_MS = (AHEAD + LONGEST) * FIRST_MS_PER_TOKEN


def test_new_tenant_starts_at_the_virtual_time_of_a_waiting_one() -> None:
    """Not where the last row of a tenant of small weight began: that row ended long ago."""
    shares = FairShares(lambda tenant: 0.01 if tenant == "low" else 1.0)
    shares.enter("low", 3)
    shares.enter("a", 1000)
    shares.settle("low", shares.charge("low", 60))
    for _ in range(90):
        shares.settle("a", shares.charge("a", 60))
    assert shares.virtual_time("low") == pytest.approx(300.0)
    assert shares.virtual_time("a") == pytest.approx(270.0)
    shares.enter("new", 1000)
    assert shares.virtual_time("new") == pytest.approx(270.0)


@pytest.mark.parametrize("took_ms", [1.0, 30.0])
def test_a_newcomer_enters_where_the_row_in_service_began(took_ms: float) -> None:
    """What the row before it took counts as measured, not as estimated."""
    shares = FairShares()
    shares.enter("busy", 100)
    ended, in_service = shares.charge("busy", 60), shares.charge("busy", 20)
    shares.settle("busy", ended, took_ms)
    shares.enter("first", 1)
    assert shares.virtual_time("first") == pytest.approx(took_ms)
    shares.settle("busy", in_service, took_ms)
    shares.settle("first", shares.charge("first", 1000))
    shares.enter("second", 1)
    assert shares.virtual_time("second") == pytest.approx(2 * took_ms)


def test_time_used_while_alone_is_not_charged_later() -> None:
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


def test_single_rows_of_many_tenants_share_a_batch() -> None:
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
    return len(list(shares.due(lines, tokens=lambda tokens: tokens, quantum=ahead)))


def test_charges_follow_the_measured_time_of_batches() -> None:
    shares = FairShares()
    shares.enter("a", 2)
    shares.learn(100, 300.0)
    assert shares.charge("a", 10) == pytest.approx(30.0)
    shares.learn(100, 400.0)
    assert 30.0 < shares.charge("a", 10) < 40.0


def test_accounts_of_idle_tenants_are_removed() -> None:
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


def test_virtual_time_of_newcomers_never_decreases() -> None:
    """Though a row that was charged beforehand took less: the second to come must gain nothing by it."""
    shares = FairShares()
    shares.enter("early", 3)
    charged = shares.charge("early", 100)
    shares.charge("early", 100)
    shares.enter("first", 1)
    shares.settle("early", charged, 0.0)
    shares.enter("second", 1)
    assert shares.virtual_time("second") == shares.virtual_time("first") == pytest.approx(charged)


def test_debt_of_a_tenant_outlives_the_sweep_of_accounts() -> None:
    shares = FairShares()
    for tenant in ("waiting", "debtor"):
        shares.enter(tenant, 1)
    shares.settle("debtor", shares.charge("debtor", 10_000))
    for number in range(3 * LEAST_KEPT):
        shares.enter(f"tenant {number}", 1)
        shares.leave(f"tenant {number}", 1)
    assert shares.virtual_time("debtor") == pytest.approx(10_000 * FIRST_MS_PER_TOKEN)
    assert len(shares) < 3 * LEAST_KEPT


weights = st.floats(0.1, 10.0)


def weighted(**of: float) -> FairShares:
    return FairShares(lambda tenant: of.get(tenant, 1.0))


def worth_ms(*of: float) -> float:
    """How far apart two may get, in milliseconds for a weight of 1: one that weighs less than that gets as
    much further ahead by its last row."""
    return (AHEAD + LONGEST / min(of)) * FIRST_MS_PER_TOKEN


@given(arrivals, weights, weights, st.fixed_dictionaries({}, optional=dict.fromkeys("abcd", weights)))
def test_two_busy_tenants_are_served_in_proportion_to_their_weights(
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
def test_virtual_times_of_waiting_tenants_differ_by_a_batch_at_most(
    pattern: list[list[tuple[str, int, int]]], of: dict[str, float]
) -> None:
    engine = Engine(weighted(**of))
    for arriving in pattern:
        for tenant, tokens, rows in arriving:
            engine.arrive(tenant, tokens, rows)
        engine.step()
        counters = [engine.shares.virtual_time(tenant) for tenant in engine.lines]
        assert not counters or max(counters) - min(counters) <= worth_ms(*of.values()) + 1e-9


def test_idle_tenant_earns_no_credit() -> None:
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


def test_changed_weight_applies_to_later_batches() -> None:
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
