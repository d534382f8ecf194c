"""Sending prepared requests to the inference workers: threads hand them over, one thread submits them in
batches, and event loops wait for the replies."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from redis.exceptions import RedisError

from inference.api.admission import (
    AdmissionRequest,
    Gateway,
    ServingState,
    admit,
    gateway,
    no_room,
    reaching_the_queue,
)
from inference.api.prepared_request import PreparedRequest
from inference.api.validation import REQUEST_ID_HEADER
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.replies import GRACE_S
from inference.queueing.transport import CallOutstanding, QueueFull
from tenants.base.errors import INTERNAL_MESSAGE, ErrorCode, HmiError

log = logging.getLogger(__name__)

AT_ONCE: Final = 64
CANCELLING_THREADS: Final = 2
CLOSE_S: Final = 5.0


class Submission:
    """A submitted request and its future reply. ``cancel_pool`` runs its cancellation; ``forget`` is called
    once it has a reply or an error.

    Event loops await `reply`, any thread may call `cancel`, and the thread of the `Submitter` the rest."""

    def __init__(
        self,
        prepared: PreparedRequest,
        message: InferRequest,
        cancel_pool: Executor,
        forget: Callable[[str], None],
    ) -> None:
        self.prepared, self.message = prepared, message
        self.made_at = time.monotonic()
        self._cancel_pool = cancel_pool
        self._seconds = prepared.admission.seconds + GRACE_S
        self._reply: Future[InferReply] = Future()
        self._reply.add_done_callback(lambda _: forget(message.id))
        self.accepted = self._cancelled = False

    async def reply(self) -> InferReply | None:
        """The reply; None if none came in time. Raises HmiError if the request was refused."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._reply), self._seconds)
        except TimeoutError:
            self._cancelled = True
            return None
        except asyncio.CancelledError:
            self._cancelled = True
            if self.accepted:
                self._take_back()
            raise

    def cancel(self) -> None:
        """Cancel the request if it has no reply. For any thread, and returns at once."""
        if not self._reply.done():
            self._cancelled = True
            if self.accepted:
                self._take_back()

    @property
    def is_wanted(self) -> bool:
        """False once the caller disconnected, or the timeout passed."""
        return not self._cancelled

    def accept(self) -> None:
        """Mark it as queued, and cancel it if it was canceled meanwhile."""
        self.accepted = True
        if self._cancelled:  # until now nobody could have found it
            self._take_back()

    def refuse(self, error: HmiError) -> None:
        """Set the error that `reply` raises."""
        with suppress(InvalidStateError):
            self._reply.set_exception(error)

    def answer(self, reply: InferReply) -> None:
        """Set the reply."""
        with suppress(InvalidStateError):
            self._reply.set_result(reply)

    def _take_back(self) -> None:
        with suppress(RuntimeError):  # the process ends
            self._cancel_pool.submit(_take_back, self.message, self.prepared.request_id)


class Submitter:
    """Submits requests in batches from a thread of its own. Any thread may call `submit`."""

    def __init__(self, connection: Gateway) -> None:
        self._gateway = connection
        self._failure: HmiError | None = None
        self._failed_at = float("-inf")
        self._submissions: SimpleQueue[Submission | None] = SimpleQueue()
        self._cancel_pool = ThreadPoolExecutor(CANCELLING_THREADS, "cancelling")
        self._thread = threading.Thread(target=self._run, name="submitter", daemon=True)
        self._thread.start()

    def submit(self, prepared: PreparedRequest) -> Submission:
        """Queue the request for the thread. Its reply is expected from now on."""
        client = self._gateway.client
        message = client.request(prepared.model, prepared.sequences, **prepared.request_options)
        submission = Submission(prepared, message, self._cancel_pool, client.forget)
        client.expect(message, submission.answer)
        self._submissions.put(submission)
        return submission

    def close(self) -> None:
        """Submit what was prepared, and end, within CLOSE_S."""
        self._submissions.put(None)
        self._thread.join(CLOSE_S)
        self._cancel_pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while (first := self._submissions.get()) is not None:
            batch = [first, *self._waiting()]
            try:
                self._submit([one for one in batch if self._is_wanted(one)])
            except Exception:
                log.exception("infer requests could not be submitted")
                for one in (one for one in batch if not one.accepted):
                    one.refuse(HmiError(ErrorCode.INTERNAL, INTERNAL_MESSAGE))

    def _waiting(self) -> list[Submission]:
        waiting: list[Submission] = []
        with suppress(Empty):
            while len(waiting) < AT_ONCE:
                submission = self._submissions.get_nowait()
                if submission is None:
                    self._submissions.put(None)
                    break
                waiting.append(submission)
        return waiting

    def _is_wanted(self, submission: Submission) -> bool:
        if not submission.is_wanted:
            submission.refuse(HmiError(ErrorCode.CANCELLED, "The request was canceled."))
        return submission.is_wanted

    def _submit(self, submissions: list[Submission]) -> None:
        """Submit the requests. Those that were made before a failure to reach the queue fail with it, since
        finding out takes seconds."""
        fresh = [one for one in submissions if one.made_at > self._failed_at]
        failure = self._try_submit(fresh) if fresh else None
        if failure is not None:
            self._failure, self._failed_at = failure, time.monotonic()
        if self._failure is not None:
            for one in submissions:
                if one.made_at <= self._failed_at:
                    one.refuse(self._failure)

    def _try_submit(self, submissions: list[Submission]) -> HmiError | None:
        """Why none could be submitted, if so."""
        try:
            with reaching_the_queue():
                self._gateway.look_if_stale()
                admitted = self._admitted(submissions)
                messages = [one.message for one in admitted]
                outcomes = self._gateway.client.queue.submit_all(messages) if messages else []
        except HmiError as away:
            return away
        for one, outcome in zip(admitted, outcomes, strict=True):
            if isinstance(outcome, Exception):
                one.refuse(self._refusal(one.prepared, outcome))
            else:
                one.accept()
        return None

    def _admitted(self, submissions: list[Submission]) -> list[Submission]:
        """Those that may come in; the others are refused. What was so a moment ago refuses nobody."""
        errors = list(map(self._why_not, submissions))
        if any(errors):
            self._gateway.look()
            errors = [error and self._why_not(one) for one, error in zip(submissions, errors, strict=True)]
        for one, error in zip(submissions, errors, strict=True):
            if error is not None:
                one.refuse(error)
        return [one for one, error in zip(submissions, errors, strict=True) if error is None]

    def _why_not(self, submission: Submission) -> HmiError | None:
        try:
            admit(submission.prepared.admission, self._gateway.state)
        except HmiError as error:
            return error
        return None

    def _refusal(
        self, prepared: PreparedRequest, outcome: QueueFull | CallOutstanding | RedisError
    ) -> HmiError:
        try:
            with reaching_the_queue():
                return refusal_of(outcome, prepared.request_id, prepared.admission, self._gateway.state)
        except HmiError as error:
            return error


def refusal_of(
    outcome: QueueFull | CallOutstanding | RedisError,
    request_id: str,
    request: AdmissionRequest,
    state: ServingState,
) -> HmiError:
    """The error of a request that the queue did not accept. Raises a RedisError again."""
    if isinstance(outcome, QueueFull):
        return no_room(outcome, request, state)
    if isinstance(outcome, CallOutstanding):
        message = f"The request {request_id} has no answer yet; choose another id."
        return HmiError(ErrorCode.CONFLICT, message, param=REQUEST_ID_HEADER)
    raise outcome


def _take_back(message: InferRequest, request_id: str) -> None:
    """Cancel this request, and not a later one of the same name. The log says whether it was in time."""
    extra = {"request_id": request_id}
    try:
        with reaching_the_queue():
            cancelled = gateway().client.queue.cancel(message.tenant, message.call, request=message.id)
    except HmiError as error:
        log.warning("the caller hung up, and the request goes on: %s", error, extra=extra)
    else:
        log.info("the caller hung up %s", "while waiting" if cancelled else "too late", extra=extra)


_lock = threading.Lock()
_submitter: tuple[Gateway, Submitter] | None = None


def submitter() -> Submitter:
    """That of this process's gateway."""
    global _submitter
    current = gateway()
    with _lock:
        if _submitter is None or _submitter[0] is not current:
            _submitter = current, Submitter(current)
        return _submitter[1]


def close_submitter() -> None:
    """Submit what was asked; the next use makes a new one."""
    global _submitter
    with _lock:
        mine, _submitter = _submitter, None
    if mine is not None:
        mine[1].close()
