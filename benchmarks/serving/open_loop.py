"""Requests that come when they come, whether or not those before them are answered."""

import time
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from inference.engine.rows import Row


class Server(Protocol):
    """What answers: it chooses a batch of those that wait, begins it, and finishes it."""

    looks_ahead: bool
    """Whether a batch is chosen and begun before the one before it is finished."""

    def choose(self, lengths: Sequence[int]) -> list[int]:
        """Positions of the next batch among waiting rows of these lengths, those that came first in
        front."""

    def begin(self, rows: list[Row]) -> Any:
        """Start what can be done ahead."""

    def finish(self, begun: Any) -> Mapping[int, Row]:
        """Returns once what ``begin`` gave is computed: by its place in the batch, what a row is to be
        computed as next; the others are answered."""


class Clock:
    """Seconds since it was made. Time in which nothing is to be done is skipped, not waited for."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._start

    def skip_to(self, moment: float) -> None:
        self._start -= max(0.0, moment - self.now())


def serve(
    server: Server,
    at: NDArray[np.float64],
    rows: Sequence[Row],
    *,
    deadline_s: float,
    clock: Clock | None = None,
) -> NDArray[np.float64]:
    """Seconds [N] from the arrival of each row to its answer. Who has waited ``deadline_s`` before its batch
    is chosen is dropped; that, and an answer that is later, is told as ``inf``."""
    run = _Run(server, at, rows, deadline_s, clock or Clock())
    return run.latencies()


class _Run:
    """One server, one list of arrivals. Rows are known by their place in it."""

    def __init__(
        self,
        server: Server,
        at: NDArray[np.float64],
        rows: Sequence[Row],
        deadline_s: float,
        clock: Clock,
    ) -> None:
        self._server, self._at, self._rows = server, at, list(rows)
        self._deadline_s, self._clock = deadline_s, clock
        self._latency = np.full(len(at), np.inf)
        self._waiting: list[int] = []
        self._come = 0

    def latencies(self) -> NDArray[np.float64]:
        """Serve to the end."""
        ahead: _Begun | None = None
        while ahead is not None or self._waiting or self._come < len(self._at):
            if ahead is None and not self._waiting:
                self._clock.skip_to(self._at[self._come])
            self._let_in()
            current = ahead or self._begin()
            ahead = self._begin() if self._server.looks_ahead else None
            if current is not None:
                self._finish(current)
        self._latency[self._latency > self._deadline_s] = np.inf
        return self._latency

    def _finish(self, batch: "_Begun") -> None:
        """Rows that go on wait again, as long as they have waited already."""
        going_on = self._server.finish(batch.what)
        now = self._clock.now()
        for place, who in enumerate(batch.who):
            if place in going_on:
                self._rows[who] = going_on[place]
                insort(self._waiting, who)
            else:
                self._latency[who] = now - self._at[who]

    def _let_in(self) -> None:
        """Those who have come by now; who came too long ago leaves."""
        now = self._clock.now()
        come = int(np.searchsorted(self._at, now, side="right"))
        self._waiting += range(self._come, come)
        self._come = come
        late = int(np.searchsorted(self._at[self._waiting], now - self._deadline_s, side="right"))
        del self._waiting[:late]

    def _begin(self) -> "_Begun | None":
        if not self._waiting:
            return None
        chosen = self._server.choose([len(self._rows[who]) for who in self._waiting])
        who = [self._waiting[place] for place in chosen]
        for place in reversed(chosen):
            del self._waiting[place]
        return _Begun(who, self._server.begin([self._rows[one] for one in who]))


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    who: list[int]
    what: Any
