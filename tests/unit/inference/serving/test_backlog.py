"""Whose rows are taken next, and what becomes of those that are no longer wanted."""

from dataclasses import dataclass, field
from typing import cast

import numpy as np

from inference.cascade.dispatcher import Level
from inference.engine.batcher import BatchLimits, StepCosts
from inference.engine.fairness import FairShares
from inference.engine.rows import Failed, ModelIdentity, Row
from inference.serving.backlog import Backlog, ScheduledBatch
from inference.serving.ticket import Ticket

LIMITS = BatchLimits(rows=4)


@dataclass(eq=False)
class FakeEngine:
    """Told apart by identity."""

    costs: StepCosts = field(default_factory=StepCosts)


@dataclass
class Route:
    executor: FakeEngine


@dataclass(eq=False)
class FakeTicket:
    """A request of some rows; done and expired when the test says so."""

    rows: list[Row]
    route: Route
    done: bool = False
    answered: bool = False
    late: bool = False

    def expired(self, now: float) -> bool:
        return self.late


@dataclass
class Desk:
    """A backlog whose batches take a millisecond for each token."""

    shares: FairShares = field(default_factory=FairShares)
    executor: FakeEngine = field(default_factory=FakeEngine)

    def __post_init__(self) -> None:
        self.backlog = Backlog(self.shares)

    def add(
        self, tenant: str, rows: int = 1, *, length: int = 10, executor: FakeEngine | None = None
    ) -> Ticket:
        model = ModelIdentity(tenant, "model", 1, tenant)
        ids = np.zeros(length, dtype=np.int64)
        made = [Row(str(n), ids, ids, model, "chain", Level.TABLE, length) for n in range(rows)]
        ticket = cast("Ticket", FakeTicket(made, Route(executor or self.executor)))
        self.backlog.add(ticket)
        return ticket

    def take(self) -> ScheduledBatch:
        batch = self.backlog.take(LIMITS)
        assert batch is not None
        return batch


def fake(ticket: Ticket) -> FakeTicket:
    return cast("FakeTicket", ticket)


def test_rows_of_a_tenant_keep_their_order() -> None:
    desk = Desk()
    tickets = [desk.add("a") for _ in range(12)]
    taken = [waiting.ticket for _ in range(3) for waiting in desk.take().waiting]
    assert taken == tickets


def test_a_batch_is_of_one_root() -> None:
    desk, other = Desk(), FakeEngine()
    desk.add("a", 2)
    desk.add("b", 2, executor=other)
    desk.add("c", 2)
    batches = [desk.take(), desk.take()]
    tenants = {frozenset(waiting.tenant for waiting in batch.waiting) for batch in batches}
    assert tenants == {frozenset("ac"), frozenset("b")}
    assert desk.backlog.take(LIMITS) is None


def test_batch_size_follows_the_costs_of_the_own_root() -> None:
    desk = Desk(executor=FakeEngine(StepCosts(fixed_s=3.0 * 10, token_s=1.0)))
    desk.add("b", 9, length=20, executor=FakeEngine(StepCosts(fixed_s=1.0, token_s=0.0)))
    desk.add("a", 6)
    assert [waiting.tenant for waiting in desk.take().waiting] == ["a"] * 4  # two rows for each of both


def test_failed_row_is_charged_its_expected_cost() -> None:
    desk = Desk()
    desk.add("a", 8)
    batch = desk.take()
    expected = desk.shares.virtual_time("a")
    desk.backlog.settle(batch, [Failed(w.row, "inference_failed", "no") for w in batch.waiting])
    assert desk.shares.virtual_time("a") == expected


def test_a_request_whose_rows_are_all_being_computed_does_not_expire_here() -> None:
    desk = Desk()
    ticket = desk.add("a", 2)
    desk.take()
    fake(ticket).late = True
    assert desk.backlog.drop_expired(0.0) == []
