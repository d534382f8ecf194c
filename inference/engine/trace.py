"""What the stages of the pipeline did when: the data of the paper's figure 17."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Literal

Lane = Literal["retrieval", "adapters", "compute"]
LANES: Final[tuple[Lane, ...]] = ("retrieval", "adapters", "compute")
KEPT = 4096


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work on one batch; start and end in seconds of `time.perf_counter`."""

    lane: Lane
    batch: int
    name: str
    start: float
    end: float


class Trace:
    """The last spans, from any thread; the oldest are forgotten."""

    def __init__(self, kept: int = KEPT) -> None:
        self._spans: deque[Span] = deque(maxlen=kept)
        self._lock = Lock()

    @contextmanager
    def span(self, lane: Lane, batch: int, name: str) -> Iterator[None]:
        """Note how long what is done inside takes, also when it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._spans.append(Span(lane, batch, name, start, time.perf_counter()))

    def spans(self, since: float = 0.0) -> list[Span]:
        """Those that ended after a time of `time.perf_counter`, by their beginning."""
        with self._lock:
            return sorted((span for span in self._spans if span.end > since), key=lambda span: span.start)

    def chrome(self, since: float = 0.0) -> dict[str, Any]:
        """The spans as `chrome://tracing` and Perfetto read them, a thread for each lane."""
        names = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": {"name": lane}}
            for tid, lane in enumerate(LANES)
        ]
        events = [
            {
                "ph": "X",
                "name": f"{span.name} {span.batch}",
                "cat": span.lane,
                "pid": 0,
                "tid": LANES.index(span.lane),
                "ts": span.start * 1e6,
                "dur": (span.end - span.start) * 1e6,
                "args": {"batch": span.batch},
            }
            for span in self.spans(since)
        ]
        return {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}
