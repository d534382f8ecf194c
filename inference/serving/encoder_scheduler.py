"""Scheduling of encoders: begin the batches there is room for, wait for one, and answer its requests."""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Final

from inference.engine.batcher import BatchLimits
from inference.engine.fairness import FairShares
from inference.engine.in_flight import BatchCallbacks, GivenUpError
from inference.engine.pet_pool import IntegrityError, SlotMismatchError
from inference.engine.rows import Answered, Failed, Outcome
from inference.queueing.consumer import Entry
from inference.queueing.log_fields import identity_fields
from inference.queueing.messages import InferReply
from inference.queueing.transport import Address
from inference.serving.backlog import Backlog, InFlightBatches, ScheduledBatch
from inference.serving.encoder_catalogue import EncoderCatalogue
from inference.serving.loop_timing import Clock, LoopTiming
from inference.serving.metrics import WorkerMetrics
from inference.serving.outbox import Outbox, cancellation, expiry, failure
from inference.serving.recent import Recent
from inference.serving.ticket import Ticket, ticket_of

log = logging.getLogger(__name__)

LEAST_PART: Final = 4
"""So few rows are not divided into batches side by side: that would cost more than it gains."""
SHORT_BATCHES_S: Final = 1.0
"""For so long after the last request the background's batches are short: another one may come."""
BACKGROUND_BATCHES: Final = 2
"""So many of the background's batches are held ready."""


class EncoderScheduler:
    """Takes batches from a backlog of rows, and from the background's when that is empty; as many as compute
    at once. Implements `Scheduler`.

    Owned by the loop's thread. Others may read ``error``, ``last_batch_at``, ``recent`` and ``backlog_rows``.
    """

    claim_pause_s = 0.0

    def __init__(
        self,
        catalogue: EncoderCatalogue,
        outbox: Outbox,
        *,
        limits: BatchLimits,
        timing: LoopTiming,
        metrics: WorkerMetrics | None = None,
        clock: Clock = Clock(),  # noqa: B008 - it has no state
    ) -> None:
        self.error = ""
        self.progress = 0
        self.last_batch_at = 0.0
        """Unix seconds of the last batch with an answer; 0 before the first."""
        self.catalogue = catalogue
        self.recent = Recent(catalogue.pipeline.trace, clock.monotonic)
        self._outbox = outbox
        self._limits, self._timing, self._clock, self._metrics = limits, timing, clock, metrics
        self._backlog, self._background = self._new_backlog(), self._new_backlog()
        self._alone = Backlog(self._backlog.shares)
        self._open: dict[Address, Ticket] = {}
        self._in_flight = InFlightBatches(catalogue.pipeline.pipelining, clock)
        self._receive: Callable[[], None] | None = None
        self._deferred_error: Exception | None = None
        self._short_until = 0.0  # the background's batches are short until then, in monotonic seconds

    def _new_backlog(self) -> Backlog:
        return Backlog(FairShares(lambda tenant: self.catalogue.manifest.weight(tenant)))

    @property
    def roots(self) -> Collection[str]:
        """See `Scheduler`."""
        return self.catalogue.executors

    @property
    def backlog_rows(self) -> int:
        """Rows that wait for a batch."""
        return len(self._backlog) + len(self._background)

    @property
    def has_requests(self) -> bool:
        """See `Scheduler`."""
        return bool(self._open or self._in_flight or self.backlog_rows)

    @property
    def in_flight(self) -> bool:
        """See `Scheduler`."""
        return bool(self._in_flight)

    @property
    def room(self) -> int:
        """See `Scheduler`. A request may have many rows: not more requests than a batch has rows."""
        return min(self._timing.backlog_rows - len(self._backlog), self._limits.rows)

    @property
    def takes_background(self) -> bool:
        """See `Scheduler`."""
        return not self._others_wait

    @property
    def background_room(self) -> bool:
        """See `Scheduler`. Others may be in flight."""
        return not self._backlog and len(self._background) < BACKGROUND_BATCHES * self._limits.rows

    @property
    def _others_wait(self) -> bool:
        """Whether rows wait that are not of the background."""
        return bool(self._backlog) or self._in_flight.waits(self._backlog)

    def add(self, entry: Entry, *, alone: bool = False) -> None:
        """See `Scheduler`."""
        ticket = ticket_of(entry, self.catalogue)
        if not entry.is_background:
            self._short_until = self._clock.monotonic() + SHORT_BATCHES_S
        if alone:
            shares = (self._background if entry.is_background else self._backlog).shares
            self._alone = Backlog(shares)
            self._alone.add(ticket)
        elif entry.is_background:
            self._background.add(ticket)
        else:
            self._backlog.add(ticket)
        self._open[entry.address] = ticket

    def drop(self, answered: Collection[Address]) -> None:
        """See `Scheduler`. The reply that the requests get here counts for nothing, but in the metrics."""
        for address in answered & self._open.keys():
            ticket = self._open[address]
            self._reply(ticket, cancellation(ticket.entry))
        self._backlog.drop_done()
        self._background.drop_done()

    def step(self, receive: Callable[[], None]) -> bool:
        """Begin as many batches as there is room for, and end one. What can be done ahead of the next one is
        done while they compute. Returns False if no row waits."""
        begun, replies, tokens = self._clock.monotonic(), self._outbox.replies, self._outbox.reply_tokens
        self._schedule()
        if not self._in_flight:
            self._check_integrity()
            return False
        ended = self._end_one(receive)
        if ended.backlog is self._backlog and self._others_wait:
            seconds = self._clock.monotonic() - begun
            self.recent.behind(self._outbox.replies - replies, self._outbox.reply_tokens - tokens, seconds)
        return True

    def step_alone(self) -> bool:
        """Compute the whole request, after the batches in flight."""
        while self._in_flight.uses_threads and self._in_flight:
            self._end_one(None)
        while (batch := self._begin(self._alone, lambda _: None)) is not None:
            self._finish(batch)
            self.progress += 1
        return False

    def send(self) -> None:
        """See `Scheduler`: nothing but replies."""

    def _schedule(self) -> None:
        """Begin as many batches as there is room for."""
        while self._in_flight.room > 0 and (begun := self._begin_next()) is not None:
            self._in_flight.add(begun)

    def _end_one(self, receive: Callable[[], None] | None) -> ScheduledBatch:
        """Answer the batch that is done first, or is computed here, and return it. Meanwhile batches begin
        where there is room, unless ``receive`` is None; what it raises is raised when the batch has its
        answers."""
        self._receive = receive
        batch = self._in_flight.first_done(self._receive_and_schedule)
        self._finish(batch)
        self.progress += self._in_flight.remove(batch)
        if (failed := self._deferred_error) is not None:
            self._deferred_error = None
            raise failed
        return batch

    def _receive_and_schedule(self) -> None:
        if self._receive is not None:
            self._receive()
            self._schedule()

    def _prefetch(self, number: int) -> None:
        """Begin the batch after the one that this thread computes. What fails now is not that one's fault."""
        self._in_flight.add_room(number)
        try:
            self._receive_and_schedule()
        except Exception as error:  # noqa: BLE001 - raised by `_end_one`
            self._deferred_error = error

    def _begin_next(self) -> ScheduledBatch | None:
        """The next batch; one of the background when no other row waits."""
        short = self._clock.monotonic() < self._short_until
        prefetch = self._in_flight.prefetch if self._in_flight.uses_threads else self._prefetch
        return self._begin(self._backlog, prefetch) or self._begin(self._background, prefetch, short=short)

    def _begin(
        self, backlog: Backlog, prefetch: Callable[[int], None], *, short: bool = False
    ) -> ScheduledBatch | None:
        for ticket in backlog.drop_expired(self._clock.time()):
            self._reply(ticket, expiry(ticket.entry))
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
        """Whether some of the requests have no answer and are not late. Any thread may call it."""
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
                self._reply(ticket, expiry(ticket.entry))
        else:
            if self._metrics is not None:
                seconds = batch.in_flight.computing.seconds
                self._metrics.batch_computed(outcomes, seconds=seconds, ended=self._clock.time())
            self._settle(batch, outcomes)
        batch.backlog.settle(batch, outcomes)
        for ticket in tickets:
            if ticket.done and not ticket.answered:
                self._reply_with_outcomes(ticket)
        batch.backlog.drop_done()

    def _settle(self, batch: ScheduledBatch, outcomes: list[Outcome]) -> None:
        """Give the outcomes of the rows to their requests, and count them for the status."""
        self.error = ""
        for waiting, outcome in zip(batch.waiting, outcomes, strict=True):
            batch.backlog.add_first(waiting.ticket, waiting.ticket.settle(outcome))
            if isinstance(outcome, Failed):
                self.error = outcome.message
        answered = [outcome for outcome in outcomes if isinstance(outcome, Answered)]
        self.recent.computed(len(outcomes), answered)
        # A device that refuses everything at once is quick, and no sign of health.
        if answered:
            self.last_batch_at = self._clock.time()

    def _reply_with_outcomes(self, ticket: Ticket) -> None:
        try:
            reply = ticket.reply(self._clock.time())
        except SlotMismatchError as error:
            self.catalogue.counters.slot_mismatches += 1
            log.critical("a reply was refused: %s", error, extra=identity_fields(ticket.entry.request))
            reply = failure(ticket.entry, "inference_failed", str(error))
        self._reply(ticket, reply)

    def _reply(self, ticket: Ticket, reply: InferReply) -> None:
        """The request's one reply."""
        ticket.answered = True
        self._open.pop(ticket.entry.address, None)
        if not ticket.entry.is_background:
            self.recent.answered(self._clock.time() - ticket.entry.request.enqueued_at)
        self._outbox.add(ticket.entry, reply)

    def _check_integrity(self) -> None:
        """When idle, nothing may be held or leased, but for batches that were given up a moment ago. A broken
        cache is emptied: it must not answer."""
        if not self.catalogue.pipeline.at_rest or self.catalogue.is_bringing:
            return
        try:
            self.catalogue.pool.check_integrity()
        except IntegrityError as error:
            log.critical("the PET pool is emptied: %s", error)
            self.error = str(error)
            self.catalogue.pool.clear()
