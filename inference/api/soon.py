"""Asking the inference workers from an event loop: one thread submits together what many tasks ask."""

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from redis.exceptions import RedisError

from inference.api.admission import no_room
from inference.api.client import Gateway, gateway, reaching_the_queue
from inference.api.infer import cancel, name_taken
from inference.api.question import Question
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.replies import GRACE_S
from inference.queueing.transport import CallOutstanding, QueueFull
from tenants.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

AT_ONCE: Final = 64


class Call:
    """One question that is asked, and the reply to come: for the task of an event loop that awaits it."""

    def __init__(self, asked: Question, request: InferRequest) -> None:
        self.asked, self.request = asked, request
        self._loop = asyncio.get_running_loop()
        self._reply: asyncio.Future[InferReply | None] = self._loop.create_future()
        self._accepted = self._unwanted = False

    async def reply(self) -> InferReply | None:
        """None when nothing came back in time. Raises HmiError when nothing was accepted."""
        seconds = self.asked.asking.seconds + GRACE_S
        timer = self._loop.call_later(seconds, self._end, lambda: self._reply.set_result(None))
        try:
            return await self._reply
        finally:
            timer.cancel()

    def take_back(self) -> bool:
        """Nobody waits for it any more, in any thread: whether it had no answer yet. Raises HmiError."""
        self._unwanted = True
        return cancel(tenant=self.asked.tenant, request_id=self.asked.request_id) if self._accepted else True

    # The rest is for the threads that submit and that read replies.

    @property
    def is_wanted(self) -> bool:
        """Until it is taken back."""
        return not self._unwanted

    def accept(self) -> None:
        """The workers have it."""
        self._accepted = True
        if self._unwanted:  # nobody else knew where it was
            self.take_back()

    def refuse(self, error: HmiError) -> None:
        """They will not have it."""
        self._tell(lambda: self._reply.set_exception(error))

    def answer(self, reply: InferReply) -> None:
        """This is it."""
        self._tell(lambda: self._reply.set_result(reply))

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
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="asker", daemon=True)
        self._thread.start()

    async def ask(self, asked: Question, on_call: Callable[[Call], None]) -> InferReply | None:
        """`Call.reply` to the question; ``on_call`` is told of the call once it is on its way."""
        seconds = asked.asking.seconds
        call = Call(asked, self._door.client.request(asked.model, asked.texts, seconds=seconds, **asked.more))
        with self._door.client.expecting(call.request, call.answer):
            self._calls.put(call)
            on_call(call)
            return await call.reply()

    def close(self) -> None:
        """Submit what was asked, and end."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            calls = [call, *self._waiting()]
            try:
                self._submit([one for one in calls if one.is_wanted])
            except Exception:
                log.exception("infer requests could not be submitted")
                error = HmiError(ErrorCode.INTERNAL, "An internal error; the operator's log has the details.")
                for one in calls:
                    one.refuse(error)

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

    def _submit(self, calls: list[Call]) -> None:
        admitted = [call for call in calls if self._is_admitted(call)]
        if not admitted:
            return
        try:
            with reaching_the_queue():
                outcomes = self._door.client.queue.submit_all([call.request for call in admitted])
        except HmiError as error:
            for call in admitted:
                call.refuse(error)
            return
        for call, outcome in zip(admitted, outcomes, strict=True):
            if isinstance(outcome, Exception):
                call.refuse(self._refusal(call.asked, outcome))
            else:
                call.accept()

    def _is_admitted(self, call: Call) -> bool:
        try:
            with reaching_the_queue():
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
