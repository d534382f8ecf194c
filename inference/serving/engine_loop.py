"""The worker's loop: receive, admit, schedule, run, reply."""

import logging
import threading
import time
from collections.abc import Callable

from redis.exceptions import RedisError

from inference.engine.batcher import BatchLimits
from inference.engine.fairness import FairShares
from inference.engine.pet_pool import IntegrityError
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.log_fields import identity_fields
from inference.serving.backlog import Backlog, ScheduledBatch
from inference.serving.batch_runner import BatchRunner
from inference.serving.catalogue import Catalogue
from inference.serving.intake import admit, cancellation, expiry
from inference.serving.loop_timing import Clock, LoopTiming
from inference.serving.metrics import WorkerMetrics
from inference.serving.outbox import Outbox
from inference.serving.recent import Recent
from inference.serving.ticket import Ticket

log = logging.getLogger(__name__)

SHORT_BATCHES_S = 1.0
"""For so long after the last request the background's batches are short: another one may come."""
BACKGROUND_BATCHES = 2
"""So many of the background's batches are held ready."""


class EngineLoop:
    """Answers requests until told to stop; those of the background when no others wait. One thread; others
    may read ``last_*``, ``recent``, ``is_drained`` and ``iterations``, which grows as long as the loop goes
    on and the oldest batch comes to its end, and set ``paused``: then it takes in no more."""

    def __init__(
        self,
        consumer: RequestConsumer,
        catalogue: Catalogue,
        *,
        limits: BatchLimits,
        timing: LoopTiming,
        alone: "threading.Lock | None" = None,
        metrics: WorkerMetrics | None = None,
        clock: Clock = Clock(),  # noqa: B008 - it has no state
    ) -> None:
        """``alone``: held by the loop of the process that computes a suspect."""
        self.iterations = 0
        self.paused = threading.Event()
        self._receiving = True
        self._queue_error = ""
        self._consumer = consumer
        self.recent = Recent(catalogue.pipeline.trace, clock.monotonic)
        self._catalogue = catalogue
        self._limits, self._timing = limits, timing
        self._clock = clock
        self._alone = alone or threading.Lock()
        self._backlog, self._background = (
            Backlog(FairShares(lambda tenant: catalogue.manifest.weight(tenant))) for _ in range(2)
        )
        self._unpublished: list[Entry] = []
        self._outbox = Outbox(consumer, catalogue.counters, self.recent, metrics, clock.time)
        self._runner = BatchRunner(
            self._outbox,
            self.recent,
            (self._backlog, self._background),
            pipelining=catalogue.pipeline.pipelining,
            limits=limits,
            metrics=metrics,
            clock=clock,
        )
        self._next_claim = {self._backlog: 0.0, self._background: 0.0}  # in monotonic seconds
        self._next_drop = 0.0

    @property
    def backlog_rows(self) -> int:
        """Rows taken in and not yet in a batch; any thread may ask."""
        return len(self._backlog) + len(self._background)

    @property
    def is_drained(self) -> bool:
        """Whether it takes in no more, and all that it had is answered; any thread may ask."""
        return not (self._receiving or self._has_unanswered)

    @property
    def _has_unanswered(self) -> bool:
        return bool(self._outbox or self._runner or self.backlog_rows or self._unpublished)

    @property
    def last_batch_at(self) -> float:
        """Unix seconds: when a batch was computed last of which some row was answered; 0 before the first."""
        return self._runner.last_batch_at

    @property
    def last_error(self) -> str:
        """What went wrong last and has not gone right since."""
        return self._queue_error or self._runner.failed

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set and everything taken in is answered. Outlives the loss of the queue's
        server, except while stopping: then what is left is for other workers to claim."""
        while not stop.is_set() or self._has_unanswered:
            try:
                ran = self.step(taking=not (stop.is_set() or self.paused.is_set()))
                self._queue_error = ""
                if self._receiving or ran:
                    continue
                if self._unpublished:
                    # A request waits for its revision. After a stop too: stop.wait would return at once.
                    time.sleep(self._timing.idle_wait_s)
                else:
                    stop.wait(self._timing.idle_wait_s)
            except RedisError as error:
                log.warning("the queue cannot be reached: %s", error)
                self._queue_error = str(error)
                if stop.wait(self._timing.lost_wait_s):
                    return

    def step(self, *, taking: bool = True) -> bool:
        """Receive, admit, schedule, run, reply, once; False when there was nothing to do. Raises redis errors
        with nothing forgotten."""
        self._receiving = taking
        if not self._runner:
            self.iterations += 1
        self._catalogue.keep_up()
        self._outbox.send()
        self._admit_unpublished()
        if taking:
            self._receive_and_claim()
        self._drop_cancelled()
        ran = self._schedule_and_run()
        self._outbox.send()
        if not ran:
            self._check_integrity()
        return ran

    def _receive_and_claim(self) -> None:
        """Admit what other workers left behind, what has come, and of the background what there is time
        for."""
        self._consumer.follow(self._catalogue.executors)
        self._claim(self._backlog)
        if not self._runner:
            busy = self._backlog or self._background
            self._receive(0.0 if busy else self._timing.idle_wait_s)
        if not self._runner.others_wait:
            self._claim(self._background)
        self._outbox.send()

    def _claim(self, backlog: Backlog) -> None:
        """Serve one request for this backlog that another worker left behind, alone: if it killed that
        worker, it must not take others with it. The background's turn comes only when no other row waits.
        If there was one, the next iteration looks for more; else late requests for roots that no worker
        serves any more get their answer."""
        if self._clock.monotonic() < self._next_claim[backlog] or not self._alone.acquire(blocking=False):
            return
        try:
            self._claim_and_serve(backlog)
        finally:
            self._alone.release()

    def _claim_and_serve(self, backlog: Backlog) -> None:
        background = backlog is self._background
        entries = self._consumer.claim_abandoned(1, background=background)
        if not entries:
            self._next_claim[backlog] = self._clock.monotonic() + self._timing.claim_every_s
            for late in () if background else self._consumer.overdue_elsewhere(self._clock.time()):
                self._outbox.answer(late, expiry(late))
        for entry in entries:
            request, own = entry.request, identity_fields(entry.request)
            log.warning("request %s is delivered for the %d. time", request.id, entry.deliveries, extra=own)
            self._serve_alone(entry)

    def _serve_alone(self, entry: Entry) -> None:
        while self._runner.uses_threads and self._runner:
            self._run_one(None)
        alone = Backlog(self._backlog_for(entry).shares)
        self._catalogue.keep_up()
        self._admit(entry, alone)
        while self._runner.run_alone(alone):
            self.iterations += 1
        self._consumer.clear(entry)

    def _receive(self, idle_s: float) -> None:
        """Fill the window: wait for the first request as long as one may be idle.

        The window is many batches wide, so that one tenant's flood in front of the stream does not hide the
        others. It has an end because what this worker holds no other can take until it dies. What asks for a
        revision that is still to come takes no place in it: others go on. Of the background little is taken,
        and only when nothing else waits.
        """
        wait_ms = int(idle_s * 1000)
        # A request may have many rows: not more requests at a time than a batch has rows.
        while (room := self._timing.backlog_rows - len(self._backlog)) > 0:
            most = min(room, self._limits.rows)
            entries = self._consumer.read(most, wait_ms)
            self._admit_all(entries)
            if len(entries) < self._consumer.share(most):  # no root has more
                break
            wait_ms = 0
        held = len(self._background)
        held += sum(len(entry.request.sequences) for entry in self._unpublished if entry.is_background)
        if not self._backlog and held < BACKGROUND_BATCHES * self._limits.rows:
            self._admit_all(self._consumer.read_background())

    def _backlog_for(self, entry: Entry) -> Backlog:
        return self._background if entry.is_background else self._backlog

    def _admit_all(self, entries: list[Entry]) -> None:
        self._catalogue.keep_up()  # a request may name what was published while it was waited for
        for entry in entries:
            self._admit(entry, self._backlog_for(entry))

    def _admit_unpublished(self) -> None:
        """Try again what named a model before its revision was there."""
        entries, self._unpublished = self._unpublished, []
        for entry in entries:
            if not entry.is_suspect:
                self._admit(entry, self._backlog_for(entry))
            elif entry.is_background and self._runner.others_wait:
                self._unpublished.append(entry)
            elif self._alone.acquire(blocking=False):
                try:
                    self._serve_alone(entry)
                finally:
                    self._alone.release()
            else:
                self._unpublished.append(entry)

    def _admit(self, entry: Entry, backlog: Backlog) -> None:
        admitted = admit(entry, self._catalogue, self._clock.time())
        if not entry.is_background:
            self._runner.short_until = self._clock.monotonic() + SHORT_BATCHES_S
        if isinstance(admitted, Ticket):
            backlog.add(admitted)
            self._outbox.expect(admitted)
        elif admitted is None:
            self._unpublished.append(entry)
        else:
            self._outbox.answer(entry, admitted)

    def _drop_cancelled(self) -> None:
        """Compute no more of what has its answer in the queue already. The one it gets here counts for
        nothing, but in the metrics."""
        if self._clock.monotonic() < self._next_drop:
            return
        self._next_drop = self._clock.monotonic() + self._timing.drop_every_s
        for ticket in self._outbox.among(self._consumer.answered()):
            self._outbox.reply_to(ticket, cancellation(ticket.entry))
        self._backlog.drop_done()
        self._background.drop_done()

    def _schedule_and_run(self) -> bool:
        """Begin what there is room for, and end one batch: what can be done ahead of the next one's turn is
        done while batches compute. False when nothing waits."""
        begun, runner, outbox = self._clock.monotonic(), self._runner, self._outbox
        answers, tokens = outbox.answered, outbox.answered_tokens
        runner.schedule()
        if not runner:
            return False
        current = self._run_one(self._receive_meanwhile)
        if current.backlog is self._backlog and runner.others_wait:
            seconds = self._clock.monotonic() - begun
            self.recent.behind(outbox.answered - answers, outbox.answered_tokens - tokens, seconds)
        return True

    def _run_one(self, receive: Callable[[], None] | None) -> ScheduledBatch:
        ended, oldest = self._runner.run_one(receive)
        self.iterations += oldest
        return ended

    def _receive_meanwhile(self) -> None:
        if self._receiving:
            self._receive(0.0)

    def _check_integrity(self) -> None:
        """When idle, nothing may be held or leased, but for batches that were given up a moment ago. A broken
        cache is emptied: it must not answer."""
        if not self._catalogue.pipeline.at_rest or self._catalogue.is_bringing:
            return
        try:
            self._catalogue.pool.check_integrity()
        except IntegrityError as error:
            log.critical("the PET pool is emptied: %s", error)
            self._runner.failed = str(error)
            self._catalogue.pool.clear()
