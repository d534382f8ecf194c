"""The worker's loop: receive, batch, execute, answer."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from redis.exceptions import RedisError

from inference.engine.batcher import BatchLimits
from inference.engine.residency import IntegrityError
from inference.engine.rows import Answered, Failed, Outcome
from inference.queueing.messages import InferReply
from inference.queueing.misses import MissCounter
from inference.queueing.transport import Entry, RequestConsumer
from inference.serving.backlog import Backlog, Batch, Waiting
from inference.serving.catalogue import Catalogue
from inference.serving.intake import admit, expiry
from inference.serving.pace import Pace
from inference.serving.ticket import Ticket

log = logging.getLogger(__name__)


class Server:
    """Answers requests until told to stop. One thread; only ``last_*`` may be read from others."""

    def __init__(
        self,
        consumer: RequestConsumer,
        catalogue: Catalogue,
        *,
        limits: BatchLimits,
        pace: Pace,
        misses: MissCounter | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.last_batch_at = 0.0
        self.last_error = ""
        self._consumer = consumer
        self._catalogue = catalogue
        self._limits = limits
        self._pace = pace
        self._misses = misses
        self._clock = clock
        self._backlog = Backlog()
        self._outbox: deque[tuple[Entry, InferReply]] = deque()
        self._next_claim = 0.0

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set and everything taken in is answered. Outlives the loss of the queue's
        server, except while stopping: then what is left is for other workers to claim."""
        while not stop.is_set() or self._backlog or self._outbox:
            try:
                self.step(taking=not stop.is_set())
            except RedisError as error:
                log.warning("the queue cannot be reached: %s", error)
                self.last_error = str(error)
                if stop.wait(self._pace.lost_wait_s):
                    return

    def step(self, *, taking: bool = True) -> bool:
        """One turn; False when there was nothing to do. Raises redis errors with nothing forgotten."""
        self._catalogue.refresh()
        self._send_outbox()
        if taking:
            self._claim()
            self._take()
            self._send_outbox()
        if self._advance(self._backlog):
            self._send_outbox()
            return True
        self._send_outbox()
        self._check_integrity()
        return False

    def _claim(self) -> None:
        """Serve one request that another worker left behind, alone: if it killed that worker, it must not
        take others with it. Where there was one, the next turn looks for more."""
        if time.monotonic() < self._next_claim:
            return
        entries = self._consumer.claim_abandoned(1)
        if not entries:
            self._next_claim = time.monotonic() + self._pace.claim_every_s
        for entry in entries:
            log.warning("request %s is delivered for the %d. time", entry.request.id, entry.deliveries)
            alone = Backlog()
            self._admit_all([entry], alone)
            while self._advance(alone):
                continue

    def _take(self) -> None:
        """Read new requests: wait for the first only when there is nothing else to do, and then a little for
        company."""
        room = self._limits.rows - len(self._backlog)
        if room <= 0:
            return
        wait_s = 0.0 if self._backlog else self._pace.idle_wait_s
        entries = self._consumer.read(room, int(wait_s * 1000))
        if not entries:
            return
        until = time.monotonic() + self._pace.batch_wait_s
        self._admit_all(entries, self._backlog)
        while (room := self._limits.rows - len(self._backlog)) > 0:
            left_ms = int((until - time.monotonic()) * 1000)
            if left_ms < 1:
                return
            self._admit_all(self._consumer.read(room, left_ms), self._backlog)

    def _admit_all(self, entries: list[Entry], backlog: Backlog) -> None:
        self._catalogue.refresh()  # a request may name what was published while it was waited for
        for entry in entries:
            self._admit(entry, backlog)

    def _admit(self, entry: Entry, backlog: Backlog) -> None:
        admitted = admit(entry, self._catalogue, self._clock())
        if isinstance(admitted, Ticket):
            backlog.add(admitted)
        else:
            self._answer(entry, admitted)

    def _advance(self, backlog: Backlog) -> bool:
        """Compute one batch of the backlog; False when it is empty."""
        for ticket in backlog.drop_expired(self._clock()):
            self._answer(ticket.entry, expiry(ticket.entry))
        batch = backlog.take(self._limits)
        if batch is None:
            return False
        self._execute(batch)
        backlog.drop_done()
        return True

    def _execute(self, batch: Batch) -> None:
        tickets = {id(waiting.ticket): waiting.ticket for waiting in batch.waiting}
        begun = self._clock()
        for ticket in tickets.values():
            ticket.started(begun)
        outcomes = _outcomes(batch)
        for waiting, outcome in zip(batch.waiting, outcomes, strict=True):
            waiting.ticket.settle(outcome)
            if isinstance(outcome, Failed):
                self.last_error = outcome.message
            else:
                self._count_misses(waiting, outcome)
        self.last_batch_at = self._clock()
        for ticket in tickets.values():
            if ticket.done:
                self._answer(ticket.entry, _reply(ticket, self.last_batch_at))

    def _count_misses(self, waiting: Waiting, answer: Answered) -> None:
        """Note what the tables lack, for a domain's to grow from, where the tenant lets it be noted."""
        served = waiting.ticket.route.served
        of_domain = len(served.plots) > 1
        if self._misses is None or not of_domain or not served.shares_counts or not len(answer.missed):
            return
        fragments = answer.missed.astype(">i4").tobytes()
        self._misses.add(served.plots[0], served.tenant, answer.missed.shape[1], fragments)

    def _answer(self, entry: Entry, reply: InferReply) -> None:
        """Put the answer in the outbox: sending may fail, and must not interrupt what is being done."""
        self._outbox.append((entry, reply))

    def _send_outbox(self) -> None:
        """Send what is answered; what cannot be sent stays for the next turn."""
        while self._outbox:
            entry, reply = self._outbox[0]
            if not self._consumer.answer(entry, reply):
                log.warning("request %s was answered by another worker", reply.id)
            self._outbox.popleft()

    def _check_integrity(self) -> None:
        """When idle, nothing may be held or leased. A broken cache is emptied: it must not answer."""
        try:
            self._catalogue.cache.check_integrity()
        except IntegrityError as error:
            log.critical("the cache of hPLMs is emptied: %s", error)
            self.last_error = str(error)
            self._catalogue.cache.clear()


def _outcomes(batch: Batch) -> list[Outcome]:
    """One step. A fault in the engine itself fails the batch, not the worker."""
    rows = [waiting.row for waiting in batch.waiting]
    try:
        return batch.executor.step(rows)
    except Exception:
        log.exception("a step of %d rows failed", len(rows))
        return [Failed(row, "inference_failed", "the hPLM could not be computed") for row in rows]


def _reply(ticket: Ticket, now: float) -> InferReply:
    """The ticket's reply. Labels that make no prediction fail their own request, not the worker."""
    try:
        return ticket.reply(now)
    except Exception:
        request = ticket.entry.request
        log.exception("request %s cannot be answered", request.id)
        message = "the hPLM's numbers make no prediction"
        return InferReply.failure(request.id, request.model, "inference_failed", message)
