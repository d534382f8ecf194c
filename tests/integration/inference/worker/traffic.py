"""Traffic that goes on while things happen to workers."""

import threading
import time
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Any, Self

from redis import Redis

from inference.queueing import keys
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import STREAM, depth
from tests.processes import PATIENCE_S, wait_until

Make = Callable[[int], InferRequest]
Check = Callable[[InferRequest, InferReply], None]


class Load:
    """Keeps some requests outstanding, from a thread of its own while entered. When left it waits for the
    last answers. A second answer, an answer to nobody and one that ``check`` refuses fail the test."""

    def __init__(
        self, redis: Redis, make: Make, check: Check, *, outstanding: int = 32, most: int | None = None
    ) -> None:
        """``make`` gives the request of each number, ``most`` of them or as many as there is time for."""
        self.answered = 0
        self._redis = redis
        self._queue = RequestQueue(redis, capacity=10_000)
        self._make = make
        self._check = check
        self._outstanding = outstanding
        self._most = most
        self._numbers = count()
        self._waiting: dict[str, InferRequest] = {}
        self._position = b"0-0"
        self._enough = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._enough.set()
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def until(self, happened: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
        """Wait for something while the traffic goes on; what ends the traffic is raised here."""
        wait_until(lambda: happened() or not self._thread.is_alive(), within_s=within_s)
        if self._error is not None:
            raise self._error

    def finish(self, *, within_s: float) -> None:
        """Wait until all of ``most`` are answered."""
        self.until(lambda: not self._thread.is_alive(), within_s=within_s)

    def _run(self) -> None:
        try:
            self._exchange()
        except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
            self._error = error

    def _exchange(self) -> None:
        heard = time.monotonic()
        while self._send() or self._waiting:
            if replies := self._collect():
                heard = time.monotonic()
            for reply in replies:
                self._check(self._waiting.pop(reply.id), reply)  # KeyError: answered twice, or to nobody
                self.answered += 1
            assert time.monotonic() - heard < PATIENCE_S, f"{len(self._waiting)} requests have no answer"
        assert not self._collect(), "something was answered twice"
        assert depth(self._redis) == 0

    def _send(self) -> bool:
        """Send until as many are outstanding as should be; whether there will be more."""
        while len(self._waiting) < self._outstanding and not self._enough.is_set():
            number = next(self._numbers)
            if number == self._most:
                self._enough.set()
                break
            request = self._make(number)
            self._waiting[request.id] = request
            self._queue.submit(request)
        return not self._enough.is_set()

    def _collect(self) -> list[InferReply]:
        """What has arrived, waited for a moment; the stream keeps only the last few thousands."""
        streams: Any = self._redis.xread({STREAM: self._position}, block=100)
        entries = [entry for _, found in streams or () for entry in found]
        if entries:
            self._position = entries[-1][0]
            self._redis.xtrim(STREAM, minid=self._position, approximate=False)
        return [InferReply.decode(fields[keys.FIELD.encode()]) for _, fields in entries]
