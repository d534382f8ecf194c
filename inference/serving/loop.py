"""The worker's loop: receive requests, hand them to a scheduler, compute, reply."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

from redis.exceptions import RedisError

from inference.errors import HplmError
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.log_fields import identity_fields
from inference.queueing.transport import Address
from inference.serving.catalogue import Catalogue, NotServedError
from inference.serving.loop_timing import Clock, LoopTiming
from inference.serving.outbox import Outbox, expiry, failure

log = logging.getLogger(__name__)

UNPUBLISHED_BACKGROUND: Final = 64
"""No request of the background is read while so many texts of it wait for a revision of the manifest."""


class Scheduler(Protocol):
    """Chooses what is computed next for the requests of one kind of roots, and computes it.

    Used by the loop's thread; others may read ``error`` and ``progress``.
    """

    @property
    def catalogue(self) -> Catalogue[Any]:
        """What is served."""

    @property
    def roots(self) -> Collection[str]:
        """Digests of the roots that it takes requests for."""

    @property
    def error(self) -> str:
        """Why something could not be computed last; "" once something can."""

    @property
    def progress(self) -> int:
        """Grows whenever the oldest batch in flight ends."""

    @property
    def claim_pause_s(self) -> float:
        """How long other requests are computed between two suspects."""

    @property
    def has_requests(self) -> bool:
        """Whether requests were added that have no reply yet."""

    @property
    def in_flight(self) -> bool:
        """Whether batches are being computed. Then `step` receives requests."""

    @property
    def room(self) -> int:
        """The most requests to read now."""

    @property
    def takes_background(self) -> bool:
        """Whether it has time for a suspect of the background."""

    @property
    def background_room(self) -> bool:
        """Whether to read a request of the background now, perhaps to compute it after what is in flight."""

    def add(self, entry: Entry, *, alone: bool = False) -> None:
        """Schedule a request; ``alone``: for `step_alone`. Raises HplmError to refuse it, NotServedError if
        this revision of the manifest does not serve its model, and RedisError."""

    def drop(self, answered: Collection[Address]) -> None:
        """Compute no more of the requests that have their answer from elsewhere."""

    def step(self, receive: Callable[[], None]) -> bool:
        """Compute one batch, or a token of each completion. ``receive`` adds requests meanwhile. Returns
        False if there was nothing to do."""

    def step_alone(self) -> bool:
        """Compute a part of the request that was added alone, and of no other. Returns whether it is to be
        called again before others are computed."""

    def send(self) -> None:
        """Send what is no reply, such as tokens. Raises RedisError with nothing forgotten."""


class ServingLoop:
    """Takes requests from the queue and sends their replies, until told to stop. A request that may have
    killed a worker is computed alone.

    One thread runs it. Others may read ``iterations``, ``last_error`` and ``is_drained``, and set ``paused``:
    then no more requests are taken.
    """

    def __init__(
        self,
        consumer: RequestConsumer,
        scheduler: Scheduler,
        outbox: Outbox,
        *,
        timing: LoopTiming,
        alone: "threading.Lock | None" = None,
        answers_overdue: bool = False,
        clock: Clock = Clock(),  # noqa: B008 - it has no state
    ) -> None:
        """``alone``: held by the loop of the process that computes a suspect. ``answers_overdue``: answer
        late requests for roots that this loop does not serve."""
        self.paused = threading.Event()
        self._consumer, self._scheduler, self._outbox = consumer, scheduler, outbox
        self._timing, self._clock = timing, clock
        self._alone = alone or threading.Lock()
        self._answers_overdue = answers_overdue
        self._iterations = 0
        self._queue_error = ""
        self._taking = True
        self._suspect: Entry | None = None  # this loop holds the lock while there is one
        self._unpublished: list[Entry] = []
        self._next_claim = {False: 0.0, True: 0.0}  # of the background: True; in monotonic seconds
        self._next_drop = 0.0

    @property
    def iterations(self) -> int:
        """Grows as long as the loop goes on and the oldest batch in flight comes to its end."""
        return self._iterations + self._scheduler.progress

    @property
    def last_error(self) -> str:
        """What went wrong last and has not gone right since; "" if nothing."""
        return self._queue_error or self._scheduler.error

    @property
    def is_drained(self) -> bool:
        """Whether no more requests are taken, and all that were have their reply."""
        return not (self._taking or self._has_unanswered)

    @property
    def _has_unanswered(self) -> bool:
        return bool(self._outbox or self._scheduler.has_requests or self._unpublished)

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set and everything taken is answered. Survives the loss of the queue's
        server, except while stopping: then other workers claim what is left."""
        while not stop.is_set() or self._has_unanswered:
            taking = not (stop.is_set() or self.paused.is_set())
            try:
                ran = self.step(taking=taking)
                self._queue_error = ""
                if not (ran or taking):
                    time.sleep(self._timing.idle_wait_s)
            except RedisError as error:
                log.warning("the queue cannot be reached: %s", error)
                self._queue_error = str(error)
                if stop.wait(self._timing.lost_wait_s):
                    return

    def step(self, *, taking: bool = True) -> bool:
        """Receive, compute and reply once; of a suspect alone as long as there is one. Returns False if there
        was nothing to do. Raises RedisError with nothing forgotten."""
        self._taking = taking
        if not self._scheduler.in_flight:
            self._iterations += 1
        self._scheduler.catalogue.keep_up()
        self._send()
        self._retry_unpublished()
        if taking:
            self._receive_and_claim()
        self._drop_answered()
        if self._suspect is None:
            ran = self._scheduler.step(self._receive_meanwhile)
            self._send()
        else:
            ran = True
            self._step_alone(self._suspect)
        return ran

    def _send(self) -> None:
        self._outbox.send()
        self._scheduler.send()

    def _receive_and_claim(self) -> None:
        """Admit a request that another worker left behind, and new ones; those of the background last."""
        scheduler = self._scheduler
        self._consumer.follow(scheduler.roots)
        self._claim(background=False)
        if self._suspect is not None:
            return
        receives = not scheduler.in_flight
        if receives:
            self._receive(0.0 if scheduler.has_requests else self._timing.idle_wait_s)
        claims = scheduler.takes_background and self._claim(background=True)
        if receives and not claims:
            self._receive_background()
        self._send()

    def _receive(self, idle_s: float) -> None:
        """Fill the window of the scheduler; wait for the first request as long as one may be idle.

        The window is many batches wide, so that one tenant's flood in front of the stream does not hide the
        others. It has an end because no other worker can take what this one holds until it dies. Requests for
        a revision that is still to come take no place in it.
        """
        wait_ms = int(idle_s * 1000)
        while (room := self._scheduler.room) > 0:
            entries = self._consumer.read(room, wait_ms)
            self._admit_all(entries)
            if len(entries) < self._consumer.share(room):  # no root has more
                return
            wait_ms = 0

    def _receive_background(self) -> None:
        unpublished = [entry for entry in self._unpublished if entry.is_background]
        waiting = sum(len(entry.request.sequences) for entry in unpublished)
        if self._scheduler.background_room and waiting < UNPUBLISHED_BACKGROUND:
            self._admit_all(self._consumer.read_background())

    def _receive_meanwhile(self) -> None:
        """Receive while batches are computed."""
        if self._taking:
            self._receive(0.0)
            self._receive_background()

    def _claim(self, *, background: bool) -> bool:
        """Compute a request that another worker left behind, alone. Returns whether there was one. If not,
        late requests for roots that no worker serves get their answer."""
        now = self._clock.monotonic()
        if self._suspect or now < self._next_claim[background] or not self._alone.acquire(blocking=False):
            return False
        entries: list[Entry] = []
        try:
            entries = self._consumer.claim_abandoned(1, background=background)
        finally:
            if not entries:
                self._alone.release()
        if not entries:
            self._next_claim[background] = now + self._timing.claim_every_s
            if self._answers_overdue and not background:
                for late in self._consumer.overdue_elsewhere(self._clock.time()):
                    self._outbox.add(late, expiry(late))
            return False
        [entry] = entries
        own = identity_fields(entry.request)
        log.warning("request %s is delivered for the %d. time", entry.request.id, entry.deliveries, extra=own)
        self._admit_alone(entry)
        return True

    def _admit_alone(self, entry: Entry) -> None:
        """Admit a suspect and begin to compute it: if it killed a worker, it must not take others with it."""
        self._suspect = entry
        try:
            self._scheduler.catalogue.keep_up()
            self._admit(entry, alone=True)
        except RedisError:
            self._suspect = None
            self._alone.release()
            self._unpublished.append(entry)  # to be tried again
            raise
        self._step_alone(entry)

    def _step_alone(self, entry: Entry) -> None:
        """Compute the suspect; beside others from the next step on, if it has ended or gone on for long."""
        goes_on = self._scheduler.step_alone()
        self._send()
        if goes_on:
            return
        self._suspect = None
        self._alone.release()
        after = self._clock.monotonic() + self._scheduler.claim_pause_s
        self._next_claim = {queue: max(after, at) for queue, at in self._next_claim.items()}
        self._consumer.clear(entry)

    def _admit_all(self, entries: list[Entry]) -> None:
        self._scheduler.catalogue.keep_up()  # a model may have been published while this loop waited
        for entry in entries:
            self._admit(entry)

    def _retry_unpublished(self) -> None:
        """Try again to admit requests that named a model before its revision was there."""
        for _ in range(len(self._unpublished)):
            entry = self._unpublished.pop(0)
            if not entry.is_suspect:
                self._admit(entry)
            elif self._may_begin_alone(entry) and self._alone.acquire(blocking=False):
                self._admit_alone(entry)
            else:
                self._unpublished.append(entry)

    def _may_begin_alone(self, entry: Entry) -> bool:
        return self._suspect is None and (self._scheduler.takes_background or not entry.is_background)

    def _admit(self, entry: Entry, *, alone: bool = False) -> None:
        """Schedule a request or refuse it. It is kept if its model may come with the next revision."""
        if self._clock.time() >= entry.request.deadline:
            self._outbox.add(entry, expiry(entry))
            return
        try:
            self._scheduler.add(entry, alone=alone)
        except RedisError:
            raise
        except HplmError as error:
            if isinstance(error, NotServedError) and self._scheduler.catalogue.is_behind:
                self._unpublished.append(entry)
            else:
                self._outbox.add(entry, failure(entry, error.code, error.message))
        except Exception:  # whatever it is, it must not end the loop
            request = entry.request
            log.exception("request %s cannot be taken in", request.id, extra=identity_fields(request))
            self._outbox.add(entry, failure(entry, "inference_failed", "the request cannot be taken in"))

    def _drop_answered(self) -> None:
        """Compute no more of what has its answer in the queue: it was cancelled."""
        if self._clock.monotonic() >= self._next_drop:
            self._next_drop = self._clock.monotonic() + self._timing.drop_every_s
            self._scheduler.drop(self._consumer.answered())
