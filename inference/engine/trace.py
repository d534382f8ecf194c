"""What the stages of the pipeline did when: the data of the paper's figure 17."""

import os
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

    def chrome(self, since: float = 0.0, *, process: str = "inference worker") -> dict[str, Any]:
        """The spans in Chrome's trace event format, which `chrome://tracing` and Perfetto open: a process of
        this name, a thread for each lane, times in microseconds."""
        pid = os.getpid()
        events = [
            {
                "ph": "X",
                "name": f"{span.name} {span.batch}",
                "cat": span.lane,
                "pid": pid,
                "tid": _tid(span.lane),
                "ts": span.start * 1e6,
                "dur": (span.end - span.start) * 1e6,
                "args": {"batch": span.batch},
            }
            for span in self.spans(since)
        ]
        return {"traceEvents": [*_names(pid, process), *events], "displayTimeUnit": "ms"}


def _names(pid: int, process: str) -> Iterator[dict[str, Any]]:
    """What the process and its lanes are called, and that the lanes stand in the order of the pipeline."""

    def named(what: str, tid: int, **args: object) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}

    yield named("process_name", _tid(LANES[0]), name=process)
    for lane in LANES:
        yield named("thread_name", _tid(lane), name=lane)
        yield named("thread_sort_index", _tid(lane), sort_index=_tid(lane))


def _tid(lane: Lane) -> int:
    """From 1: viewers take 0 for the idle thread."""
    return 1 + LANES.index(lane)
