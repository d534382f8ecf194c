"""Asking the inference workers from an event loop: one thread submits together what many tasks ask."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from redis.exceptions import RedisError

from inference.api.admission import no_room
from inference.api.client import Gateway, gateway, reaching_the_queue
from inference.api.hang_ups import hung_up
from inference.api.infer import name_taken, take_back
from inference.api.question import Question
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.replies import GRACE_S
from inference.queueing.transport import CallOutstanding, QueueFull
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

AT_ONCE: Final = 64
HANG_UPS: Final = 2
CLOSE_S: Final = 5.0


class Call:
    """One question that is asked, and the reply to come: for the task of an event loop that awaits it.
    ``later`` does what may take long."""

    def __init__(self, asked: Question, request: InferRequest, later: Executor) -> None:
        self.asked, self.request = asked, request
        self._later = later
        self.made_at = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._reply: asyncio.Future[InferReply | None] = self._loop.create_future()
        self._accepted = self._unwanted = False

    async def reply(self) -> InferReply | None:
        """None when nothing came back in time. Raises HmiError when nothing was accepted."""
        seconds = self.asked.asking.seconds + GRACE_S
        timer = self._loop.call_later(seconds, self._end, lambda: self._reply.set_result(None))
        try:
            reply = await self._reply
            self._unwanted = reply is None
            return reply
        finally:
            timer.cancel()

    def hang_up(self) -> None:
        """Nobody waits for it any more."""
        if not self._reply.done():
            self._unwanted = True
            if self._accepted:
                self._take_back()

    # The rest is for the threads that submit and that read replies.

    @property
    def is_wanted(self) -> bool:
        """Until who asked has gone, or its time is over."""
        return not self._unwanted

    def accept(self) -> None:
        """The workers have it."""
        self._accepted = True
        if self._unwanted:  # until now nobody could have found it
            self._take_back()

    def refuse(self, error: HmiError) -> None:
        """They will not have it."""
        self._tell(lambda: self._reply.set_exception(error))

    def answer(self, reply: InferReply) -> None:
        """This is it."""
        self._tell(lambda: self._reply.set_result(reply))

    def _take_back(self) -> None:
        self._later.submit(hung_up, partial(take_back, self.asked, self.request), self.asked.request_id)

    def _tell(self, end: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._end, end)
        except RuntimeError:
            log.debug("an answer came when the server had stopped")

    def _end(self, end: Callable[[], None]) -> None:
        if not self._reply.done():
            end()


class Asker:
    """The thread that submits."""

    def __init__(self, door: Gateway) -> None:
        self._door = door
        self._failure: HmiError | None = None
        self._failed_at = float("-inf")
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._later = ThreadPoolExecutor(HANG_UPS, "hang-ups")
        self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self._thread.start()

    async def ask(self, asked: Question, on_call: Callable[[Call], None]) -> InferReply | None:
        """`Call.reply` to the question; ``on_call`` is told of the call once it is on its way."""
        request = self._door.client.request(asked.model, asked.texts, **asked.how)
        call = Call(asked, request, self._later)
        with self._door.client.expecting(request, call.answer):
            self._calls.put(call)
            on_call(call)
            return await call.reply()

    def close(self) -> None:
        """Submit what was asked, and end, within CLOSE_S."""
        self._calls.put(None)
        self._thread.join(CLOSE_S)
        self._later.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            calls = [call, *self._waiting()]
            try:
                self._submit([one for one in calls if self._is_wanted(one)])
            except Exception:
                log.exception("infer requests could not be submitted")
                for one in calls:
                    one.refuse(HmiError(ErrorCode.INTERNAL, "An internal error; the operator's log has it."))

    def _waiting(self) -> list[Call]:
        waiting: list[Call] = []
        try:
            while len(waiting) < AT_ONCE:
                call = self._calls.get_nowait()
                if call is None:
                    self._calls.put(None)
                    break
                waiting.append(call)
        except Empty:
            pass
        return waiting

    def _is_wanted(self, call: Call) -> bool:
        if not call.is_wanted:
            call.refuse(HmiError(ErrorCode.CANCELLED, "The request was cancelled."))
        return call.is_wanted

    def _submit(self, calls: list[Call]) -> None:
        """A queue that cannot be reached takes seconds to say so: who has waited for that hears it, too."""
        fresh = [call for call in calls if call.made_at > self._failed_at]
        failure = self._tried(fresh) if fresh else None
        if failure is not None:
            self._failure, self._failed_at = failure, time.monotonic()
        if self._failure is not None:
            for call in calls:
                if call.made_at <= self._failed_at:
                    call.refuse(self._failure)

    def _tried(self, calls: list[Call]) -> HmiError | None:
        """Why none could be submitted, if so."""
        try:
            with reaching_the_queue():
                self._door.look_if_stale()
                admitted = [call for call in calls if self._is_admitted(call)]
                requests = [call.request for call in admitted]
                outcomes = self._door.client.queue.submit_all(requests) if requests else []
        except HmiError as away:
            return away
        for call, outcome in zip(admitted, outcomes, strict=True):
            if isinstance(outcome, Exception):
                call.refuse(self._refusal(call.asked, outcome))
            else:
                call.accept()
        return None

    def _is_admitted(self, call: Call) -> bool:
        try:
            self._door.admit(call.asked.asking)
        except HmiError as error:
            call.refuse(error)
            return False
        return True

    def _refusal(self, asked: Question, outcome: QueueFull | CallOutstanding | RedisError) -> HmiError:
        try:
            with reaching_the_queue():
                if isinstance(outcome, QueueFull):
                    return no_room(outcome, asked.asking, self._door.standing)
                if isinstance(outcome, CallOutstanding):
                    return name_taken(asked)
                raise outcome
        except HmiError as error:
            return error


_lock = threading.Lock()
_asker: tuple[Gateway, Asker] | None = None


def asker() -> Asker:
    """That of this process's gateway."""
    global _asker
    door = gateway()
    with _lock:
        if _asker is None or _asker[0] is not door:
            _asker = door, Asker(door)
        return _asker[1]


def close_asker() -> None:
    """Submit what was asked; the next use makes a new one."""
    global _asker
    with _lock:
        mine, _asker = _asker, None
    if mine is not None:
        mine[1].close()
