"""Running batches: begin those there is room for, wait for one, and answer its requests."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import ceil
from queue import Empty, SimpleQueue
from typing import Final

from inference.engine.batcher import BatchLimits
from inference.engine.in_flight import BatchCallbacks, GivenUpError
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Answered, Failed, Outcome
from inference.serving.backlog import Backlog, ScheduledBatch
from inference.serving.intake import expiry
from inference.serving.loop_timing import Clock
from inference.serving.metrics import WorkerMetrics
from inference.serving.outbox import Outbox
from inference.serving.recent import Recent
from inference.serving.ticket import Ticket

LEAST_PART: Final = 4
"""So few rows are not divided into batches side by side: that would cost more than it gains."""
POLL_S: Final = 0.01
"""While one more batch could compute, so often the queue is asked for its rows."""


class InFlightBatches:
    """The batches that are under way, the oldest first. There is room for as many as compute at once, and for
    one more with each that calls ``prefetch``. The threads that compute them report how far they are; where
    there are none, one batch is computed by whoever ends it. But for that, one thread."""

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
        """So many more may be begun."""
        return self._at_once - len(self._batches) + len(self._prefetching)

    def waits(self, backlog: Backlog) -> bool:
        """Whether one of this backlog waits until others are computed."""
        return sum(each.backlog is backlog for each in self._batches.values()) >= self._at_once

    def add(self, batch: ScheduledBatch) -> None:
        """One more is under way."""
        self._batches[batch.in_flight.number] = batch
        if self.uses_threads:
            batch.in_flight.when_done(lambda number: self._events.put((number, True)))

    def remove(self, batch: ScheduledBatch) -> bool:
        """One has ended. Whether it was the oldest."""
        number = batch.in_flight.number
        oldest = number == next(iter(self._batches))
        del self._batches[number]
        self._prefetching.discard(number)
        return oldest

    def prefetch(self, number: int) -> None:
        """It is time to begin the batch after this one; for any thread."""
        self._events.put((number, False))

    def add_room(self, number: int) -> None:
        """There is room for the batch after this one."""
        self._prefetching.add(number)

    def first_done(self, receive_and_schedule: Callable[[], None]) -> ScheduledBatch:
        """The one that is done first; the oldest, where whoever asks is to compute it. It calls
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


class BatchRunner:
    """Takes batches from two backlogs, from the second when the first is empty, as many as compute at once,
    and answers the requests that are done with them. Those of the second are short until ``short_until``,
    in monotonic seconds. ``failed`` says what went wrong last and has not gone right since; ``last_batch_at``
    is when some row was answered last. One thread; others may read these."""

    def __init__(
        self,
        outbox: Outbox,
        recent: Recent,
        backlogs: tuple[Backlog, Backlog],
        *,
        pipelining: Pipelining,
        limits: BatchLimits,
        metrics: WorkerMetrics | None,
        clock: Clock,
    ) -> None:
        self.failed = ""
        self.last_batch_at = 0.0
        self.short_until = 0.0
        self._outbox, self._recent = outbox, recent
        self._backlog, self._background = backlogs
        self._in_flight = InFlightBatches(pipelining, clock)
        self.uses_threads = self._in_flight.uses_threads
        self._receive: Callable[[], None] | None = None
        self._deferred_error: Exception | None = None
        self._limits = limits
        self._metrics = metrics
        self._clock = clock

    def __len__(self) -> int:
        """Batches that are under way."""
        return len(self._in_flight)

    @property
    def others_wait(self) -> bool:
        """Whether requests wait that are not of the background."""
        return bool(self._backlog) or self._in_flight.waits(self._backlog)

    def schedule(self) -> None:
        """Begin as many batches as there is room for."""
        while self._in_flight.room > 0 and (begun := self._begin_next()) is not None:
            self._in_flight.add(begun)

    def run_one(self, receive: Callable[[], None] | None) -> tuple[ScheduledBatch, bool]:
        """The batch that is done first, or is computed here, answered; and whether it was the oldest. There
        must be one. Meanwhile ``receive`` fills the backlogs and batches begin where there is room; without
        it none does. What it raises is raised when the batch is answered."""
        self._receive = receive
        current = self._in_flight.first_done(self._receive_and_schedule)
        self._finish(current)
        oldest = self._in_flight.remove(current)
        if (failed := self._deferred_error) is not None:
            self._deferred_error = None
            raise failed
        return current, oldest

    def run_alone(self, backlog: Backlog) -> bool:
        """Compute one batch of a backlog of its own, and nothing else meanwhile; False when it is empty."""
        batch = self._begin(backlog, lambda _: None)
        if batch is not None:
            self._finish(batch)
        return batch is not None

    def _receive_and_schedule(self) -> None:
        if self._receive is not None:
            self._receive()
            self.schedule()

    def _prefetch(self, number: int) -> None:
        """Begin the batch after the one that this thread computes. What fails now is not that one's fault."""
        self._in_flight.add_room(number)
        try:
            self._receive_and_schedule()
        except Exception as error:  # noqa: BLE001 - raised by `run_one`
            self._deferred_error = error

    def _begin_next(self) -> ScheduledBatch | None:
        """The next batch; one of the background when no other row waits."""
        short = self._clock.monotonic() < self.short_until
        prefetch = self._in_flight.prefetch if self.uses_threads else self._prefetch
        return self._begin(self._backlog, prefetch) or self._begin(self._background, prefetch, short=short)

    def _begin(
        self, backlog: Backlog, prefetch: Callable[[int], None], *, short: bool = False
    ) -> ScheduledBatch | None:
        for ticket in backlog.drop_expired(self._clock.time()):
            self._outbox.reply_to(ticket, expiry(ticket.entry))
        batch = backlog.take(self._limits_for(len(backlog)), short=short)
        if batch is None:
            return None
        begun, tickets = self._clock.time(), batch.tickets
        for ticket in tickets:
            ticket.started(begun)
        alone = not (self._in_flight or self._backlog or self._background)
        batch.begin(BatchCallbacks(partial(self._wanted, tickets), prefetch), alone=alone)
        return batch

    def _limits_for(self, waiting: int) -> BatchLimits:
        """Of a batch while so many rows wait: not more than its part, where others have room beside it."""
        part = ceil(waiting / max(1, self._in_flight.room))
        return replace(self._limits, rows=min(self._limits.rows, max(LEAST_PART, part)))

    def _wanted(self, tickets: Iterable[Ticket]) -> bool:
        """Whether some of these have no answer and are not late."""
        now = self._clock.time()
        return any(not (ticket.answered or ticket.expired(now)) for ticket in tickets)

    def _finish(self, batch: ScheduledBatch) -> None:
        """Charge the tenants of a computed batch, and answer the requests that are done with it."""
        tickets = {ticket for ticket in batch.tickets if not ticket.answered}
        try:
            outcomes = batch.finish()
        except GivenUpError:
            outcomes = [
                Failed(w.row, "deadline_exceeded", "nobody waits for it any more") for w in batch.waiting
            ]
            for ticket in tickets:
                self._outbox.reply_to(ticket, expiry(ticket.entry))
        else:
            if self._metrics is not None:
                seconds = batch.in_flight.computing.seconds
                self._metrics.batch_computed(outcomes, seconds=seconds, ended=self._clock.time())
            self._note(batch, outcomes)
        batch.backlog.settle(batch, outcomes)
        for ticket in tickets:
            if ticket.done and not ticket.answered:
                self._outbox.conclude(ticket)
        batch.backlog.drop_done()

    def _note(self, batch: ScheduledBatch, outcomes: list[Outcome]) -> None:
        """Give the outcomes of the rows to their requests, and note them for the status and metrics."""
        self.failed = ""
        for waiting, outcome in zip(batch.waiting, outcomes, strict=True):
            further = waiting.ticket.settle(outcome)
            if further is not None:
                batch.backlog.add_first(waiting.ticket, further)
            if isinstance(outcome, Failed):
                self.failed = outcome.message
        answered = [outcome for outcome in outcomes if isinstance(outcome, Answered)]
        self._recent.computed(len(outcomes), answered)
        # A device that refuses everything at once is quick, and no sign of health.
        if answered:
            self.last_batch_at = self._clock.time()
