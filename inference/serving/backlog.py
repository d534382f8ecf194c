"""Rows that wait for a batch, and the batches in flight."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Final

from inference.engine.batcher import BatchLimits, batch_size
from inference.engine.fairness import FairShares
from inference.engine.in_flight import BatchCallbacks, Engine, GivenUpError, InFlightBatch
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Answered, Failed, Outcome, Row
from inference.errors import DeviceLostError
from inference.serving.loop_timing import Clock
from inference.serving.ticket import Ticket

log = logging.getLogger(__name__)

SHORT_BATCH: Final = 2.0
"""A short batch takes at most so many times as long as its first row alone."""
EXTRA_ROWS_FACTOR: Final = 1.25
"""What a tenant gets in a batch beyond its turn takes at most so many times as long as the longest row alone,
for each tenant with more than a row: they wait for each other anyway, and large batches serve all sooner."""
POLL_S: Final = 0.01
"""How often the queue is read while one more batch could compute."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """One row and the request it belongs to."""

    ticket: Ticket
    row: Row

    @property
    def tenant(self) -> str:
        """The tenant that is charged for the row."""
        return self.row.model.tenant


@dataclass(slots=True, eq=False)
class ScheduledBatch:
    """Rows for one batch of one root's executor, the milliseconds that each was charged beforehand, and the
    backlog that they were taken from; once begun, the batch in the engine."""

    backlog: "Backlog"
    executor: Engine
    waiting: list[Waiting]
    charged: list[float]
    _in_flight: InFlightBatch | None = None

    @property
    def tickets(self) -> set[Ticket]:
        """The requests that the rows are of."""
        return {waiting.ticket for waiting in self.waiting}

    @property
    def in_flight(self) -> InFlightBatch:
        """The batch in the engine, which must have been begun."""
        assert self._in_flight is not None
        return self._in_flight

    def begin(self, callbacks: BatchCallbacks, *, alone: bool) -> None:
        """Begin it in the engine. ``alone``: nothing else computes or waits."""
        rows = [waiting.row for waiting in self.waiting]
        self._in_flight = self.executor.begin(rows, callbacks, alone=alone)

    def finish(self) -> list[Outcome]:
        """The outcomes of its rows. A fault in the engine itself fails the batch, not the worker. Raises
        GivenUpError if no request waited for it any more, and DeviceLostError."""
        try:
            return self.executor.finish(self.in_flight)
        except (GivenUpError, DeviceLostError):
            raise
        except Exception:
            log.exception("a step of %d rows failed", len(self.waiting))
            message = "the model could not be computed"
            return [Failed(waiting.row, "inference_failed", message) for waiting in self.waiting]


class Backlog:
    """A queue of rows for each tenant, in order of arrival. ``shares`` orders the tenants by virtual time.
    Each batch that is taken must be settled. Owned by the thread of the loop."""

    def __init__(self, shares: FairShares) -> None:
        self.shares = shares
        self._queues: dict[str, list[Waiting]] = {}
        self._rows_of: dict[Ticket, int] = {}
        self._count = 0

    def __len__(self) -> int:
        """Rows that wait."""
        return self._count

    def add(self, ticket: Ticket) -> None:
        """The ticket's rows wait from now on."""
        for row in ticket.rows:
            self._queues.setdefault(row.model.tenant, []).append(Waiting(ticket, row))
            self._enter(ticket, row)

    def add_first(self, ticket: Ticket, rows: Sequence[Row]) -> None:
        """Rows of the ticket that go on to another level wait before all others of their tenant."""
        for row in reversed(rows):
            self._queues.setdefault(row.model.tenant, []).insert(0, Waiting(ticket, row))
            self._enter(ticket, row)

    def drop_done(self) -> None:
        """Forget the remaining rows of requests that have their answer already."""
        self._drop({ticket for ticket in self._rows_of if ticket.done or ticket.answered})

    def drop_expired(self, now: float) -> list[Ticket]:
        """Take out and return the requests with waiting rows whose deadline has passed."""
        expired = [ticket for ticket in self._rows_of if ticket.expired(now)]
        self._drop(set(expired))
        return expired

    def take(self, limits: BatchLimits, *, short: bool = False) -> ScheduledBatch | None:
        """Take out the next batch: the row that is due first, and others of the same root, those of a model
        together. They are charged what they are expected to take, so that the next batch may be taken before
        this one is computed.
        ``short``: no more rows than take little longer than one, for others may come meanwhile."""
        if not self._count:
            return None
        if short:
            limits = self._short(limits)
        window = self._window(limits)
        executor = window[0].ticket.route.executor
        work = [waiting.row.work for waiting in window]
        chosen = window[: batch_size(work, limits)]
        chosen.sort(key=lambda waiting: (waiting.row.model.digest, len(waiting.row)))
        charged = [self.shares.charge(waiting.tenant, waiting.row.work) for waiting in chosen]
        self._remove(set(chosen))
        return ScheduledBatch(self, executor, chosen, charged)

    def settle(self, batch: ScheduledBatch, outcomes: Sequence[Outcome]) -> None:
        """Charge the time that the rows of a computed batch took; of a row that failed, the expected time."""
        for waiting, charged, outcome in zip(batch.waiting, batch.charged, outcomes, strict=True):
            took_ms = 1000 * _seconds(outcome) if isinstance(outcome, Answered) else None
            self.shares.settle(waiting.tenant, charged, took_ms)
        answered = [outcome for outcome in outcomes if isinstance(outcome, Answered)]
        if len(answered) != len(outcomes):  # it was not computed in one piece: nothing to learn from
            return
        work = sum(outcome.row.work for outcome in answered)
        self.shares.learn(work, 1000 * sum(map(_seconds, answered)))
        # Loading an adapter is no part of what a batch of that shape always takes.
        computing = sum(outcome.seconds.retrieval + outcome.seconds.compute for outcome in answered)
        batch.executor.costs.learn(work, computing)

    def _short(self, limits: BatchLimits) -> BatchLimits:
        first = next(self._due(0))
        costs = first.ticket.route.executor.costs
        return replace(limits, rows=costs.rows_in(SHORT_BATCH, first.row.work, limits))

    def _window(self, limits: BatchLimits) -> list[Waiting]:
        """The first rows in order of who is due, of the root of the very first, as many as that root may
        compute at once without delaying it much."""
        executor = next(self._due(0)).ticket.route.executor
        queues = self._queues.values()
        longest = max(w.row.work for queue in queues for w in queue if w.ticket.route.executor is executor)
        busy = max(1, sum(len(queue) > 1 for queue in queues))
        in_order = self._due(longest * busy * executor.costs.rows_in(EXTRA_ROWS_FACTOR, longest, limits))
        return list(islice((w for w in in_order if w.ticket.route.executor is executor), limits.rows))

    def _due(self, quantum: int) -> Iterator[Waiting]:
        return self.shares.due(self._queues, tokens=lambda w: w.row.work, quantum=quantum)

    def _enter(self, ticket: Ticket, row: Row) -> None:
        self.shares.enter(row.model.tenant, 1)
        self._rows_of[ticket] = self._rows_of.get(ticket, 0) + 1
        self._count += 1

    def _drop(self, tickets: set[Ticket]) -> None:
        if not tickets:
            return
        dropped = {w for queue in self._queues.values() for w in queue if w.ticket in tickets}
        self._remove(dropped)
        for waiting in dropped:
            self.shares.leave(waiting.tenant, 1)

    def _remove(self, gone: set[Waiting]) -> None:
        for tenant in {waiting.tenant for waiting in gone}:
            left = [waiting for waiting in self._queues.pop(tenant) if waiting not in gone]
            if left:
                self._queues[tenant] = left
        for waiting in gone:
            self._rows_of[waiting.ticket] -= 1
            if not self._rows_of[waiting.ticket]:
                del self._rows_of[waiting.ticket]
        self._count -= len(gone)


class InFlightBatches:
    """The batches that were begun and have not ended, the oldest first. There is room for as many as compute
    at once, and for one more with each that calls ``prefetch``.

    Owned by the loop's thread. The threads that compute batches call ``prefetch`` and put events into a
    queue; without such threads, the loop's own computes a batch when it ends it.
    """

    def __init__(self, pipelining: Pipelining, clock: Clock) -> None:
        self._clock = clock
        self._at_once = pipelining.at_once
        self.uses_threads = pipelining.parallel_batches > 0
        """Whether other threads compute them."""
        self._batches: dict[int, ScheduledBatch] = {}
        self._prefetching: set[int] = set()
        self._events: SimpleQueue[tuple[int, bool]] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def room(self) -> int:
        """How many more may be begun."""
        return self._at_once - len(self._batches) + len(self._prefetching)

    def waits(self, backlog: Backlog) -> bool:
        """Whether a batch of this backlog waits until others are computed."""
        return sum(each.backlog is backlog for each in self._batches.values()) >= self._at_once

    def add(self, batch: ScheduledBatch) -> None:
        """One more has begun."""
        self._batches[batch.in_flight.number] = batch
        if self.uses_threads:
            batch.in_flight.when_done(lambda number: self._events.put((number, True)))

    def remove(self, batch: ScheduledBatch) -> bool:
        """One has ended. Returns whether it was the oldest."""
        number = batch.in_flight.number
        oldest = number == next(iter(self._batches))
        del self._batches[number]
        self._prefetching.discard(number)
        return oldest

    def prefetch(self, number: int) -> None:
        """It is time to begin the batch after this one. Any thread may call it."""
        self._events.put((number, False))

    def add_room(self, number: int) -> None:
        """There is room for the batch after this one."""
        self._prefetching.add(number)

    def first_done(self, receive_and_schedule: Callable[[], None]) -> ScheduledBatch:
        """The batch that is done first; the oldest if the caller is to compute it. Calls
        ``receive_and_schedule`` whenever there is room: at once when that is new, else every POLL_S."""
        if not self.uses_threads:
            return next(iter(self._batches.values()))
        while True:
            try:
                number, done = self._clock.get(self._events, POLL_S if self.room else None)
            except Empty:
                receive_and_schedule()
                continue
            if done:
                return self._batches[number]
            self.add_room(number)
            receive_and_schedule()


def _seconds(outcome: Answered) -> float:
    """The row's share of all stages of its batch."""
    stages = outcome.seconds
    return stages.retrieval + stages.adapter_load + stages.compute
