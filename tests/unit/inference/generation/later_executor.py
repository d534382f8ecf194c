"""An executor under the test's control."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class LaterExecutor(Executor):
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run_all(self) -> None:
        while self._waiting:
            future, call = self._waiting.popleft()
            try:
                future.set_result(call())
            except Exception as error:  # noqa: BLE001 - as executors do
                future.set_exception(error)
