"""Computing batches: beginning them, ending them, and what came of their rows."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Final

from inference.engine.batcher import BatchLimits
from inference.engine.in_flight import BatchCallbacks, GivenUpError
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Answered, Failed, Hits, Outcome
from inference.queueing.misses import MissCounter
from inference.serving.backlog import Backlog, ScheduledBatch, Waiting
from inference.serving.clock import Clock
from inference.serving.in_flight_batches import InFlightBatches
from inference.serving.intake import expiry
from inference.serving.metrics import WorkerMetrics
from inference.serving.outbox import Outbox
from inference.serving.recent import Recent
from inference.serving.ticket import Ticket

LEAST_PART: Final = 4
"""Rows that are not parted for the sake of batches side by side: less would cost more than it gains."""


class BatchRunner:
    """Takes batches from two backlogs, from the second when the first is empty, as many as compute at once,
    and answers the requests that are done with them. Those of the second are brief until ``briefly_until``,
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
        misses: MissCounter | None,
        metrics: WorkerMetrics | None,
        clock: Clock,
    ) -> None:
        self.failed = ""
        self.last_batch_at = 0.0
        self.briefly_until = 0.0
        self._outbox, self._recent = outbox, recent
        self._backlog, self._background = backlogs
        self._in_flight = InFlightBatches(pipelining, clock)
        self._bring: Callable[[], None] | None = None
        self._look_failed: Exception | None = None
        self._limits = limits
        self._misses, self._metrics = misses, metrics
        self._clock = clock

    def __len__(self) -> int:
        """Batches that are under way."""
        return len(self._in_flight)

    @property
    def elsewhere(self) -> bool:
        """Whether batches are computed by other threads now."""
        return self._in_flight.are_computed_elsewhere and bool(self._in_flight)

    @property
    def others_wait(self) -> bool:
        """Whether there is more to do than the background's."""
        return bool(self._backlog) or self._in_flight.waits(self._backlog)

    def schedule(self) -> None:
        """Begin as many batches as there is room for."""
        while self._in_flight.room > 0 and (begun := self._begin_next()) is not None:
            self._in_flight.add(begun)

    def run_one(self, bring: Callable[[], None] | None) -> tuple[ScheduledBatch, bool]:
        """The batch that is done first, or is computed here, answered; and whether it was the oldest. There
        must be one. Meanwhile ``bring`` brings more, which is begun where there is room; nothing is, without.
        What it raises is raised when no batch is the worse for it."""
        self._bring = bring
        current = self._in_flight.first_done(self._look_around)
        self._finish(current)
        oldest = self._in_flight.remove(current)
        if (failed := self._look_failed) is not None:
            self._look_failed = None
            raise failed
        return current, oldest

    def run_alone(self, backlog: Backlog) -> bool:
        """Compute one batch of a backlog of its own, and nothing else meanwhile; False when it is empty."""
        batch = self._begin(backlog, lambda _: None)
        if batch is not None:
            self._finish(batch)
        return batch is not None

    def _look_around(self) -> None:
        if self._bring is not None:
            self._bring()
            self.schedule()

    def _near_end_here(self, number: int) -> None:
        """A batch that this thread computes comes to its end. What fails now is not its fault."""
        self._in_flight.ends(number)
        try:
            self._look_around()
        except Exception as error:  # noqa: BLE001 - raised by `run_one`
            self._look_failed = error

    def _begin_next(self) -> ScheduledBatch | None:
        """The next batch; one of the background when no other row waits."""
        briefly = self._clock.monotonic() < self.briefly_until
        near_end = self._in_flight.near_end if self._in_flight.are_computed_elsewhere else self._near_end_here
        return self._begin(self._backlog, near_end) or self._begin(
            self._background, near_end, briefly=briefly
        )

    def _begin(
        self, backlog: Backlog, near_end: Callable[[int], None], *, briefly: bool = False
    ) -> ScheduledBatch | None:
        for ticket in backlog.drop_expired(self._clock.time()):
            self._outbox.reply_to(ticket, expiry(ticket.entry))
        batch = backlog.take(self._limits_for(len(backlog)), briefly=briefly)
        if batch is None:
            return None
        begun, tickets = self._clock.time(), batch.tickets
        for ticket in tickets:
            ticket.started(begun)
        alone = not (self._in_flight or self._backlog or self._background)
        batch.begin(BatchCallbacks(partial(self._wanted, tickets), near_end), alone=alone)
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
        """What came of a batch: charge its tenants, and answer the requests that are done with it."""
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
        """What came of the rows, for their requests and for those who watch."""
        self.failed = ""
        for waiting, outcome in zip(batch.waiting, outcomes, strict=True):
            waiting.ticket.settle(outcome)
            if isinstance(outcome, Failed):
                self.failed = outcome.message
            else:
                self._count_misses(waiting, outcome)
        answers = [outcome.hits for outcome in outcomes if isinstance(outcome, Answered)]
        self._recent.computed(len(outcomes), sum(answers, Hits()))
        # A device that refuses everything at once is quick, and no sign of health.
        if any(isinstance(outcome, Answered) for outcome in outcomes):
            self.last_batch_at = self._clock.time()

    def _count_misses(self, waiting: Waiting, answer: Answered) -> None:
        """Note what the tables lack, for a domain's to grow from, where the tenant lets it be noted."""
        served = waiting.ticket.route.served
        of_domain = len(served.plots) > 1
        if self._misses is None or not of_domain or not served.shares_counts or not len(answer.missed):
            return
        fragments = answer.missed.astype(">i4").tobytes()
        self._misses.add(served.plots[0], served.tenant, answer.missed.shape[1], fragments)
