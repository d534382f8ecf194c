"""Tokens and replies on their way from the thread that reads them to the event loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from inference.queueing.messages import GeneratedToken, InferReply

Arrival = tuple[int, GeneratedToken | InferReply]
"""What came of the choice of this number."""


class Arrivals:
    """What came and was not taken yet, in its order. `put` is for the reading thread, `take` for one task."""

    def __init__(self) -> None:
        self._arrived: SimpleQueue[Arrival] = SimpleQueue()
        self._wake: Callable[[], object] = lambda: None

    def put(self, index: int, item: GeneratedToken | InferReply) -> None:
        """Called in the thread that reads replies; returns at once."""
        self._arrived.put((index, item))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._wake()

    async def take(self, seconds: float) -> list[Arrival]:
        """All that came, waiting at most so long for the first; nothing after that time."""
        loop, is_there = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(is_there.set)
        if taken := self._rest():
            return taken
        try:
            await asyncio.wait_for(is_there.wait(), max(0.0, seconds))
        except TimeoutError:
            return []
        return self._rest()

    def _rest(self) -> list[Arrival]:
        rest: list[Arrival] = []
        with suppress(Empty):
            while True:
                rest.append(self._arrived.get_nowait())
        return rest
