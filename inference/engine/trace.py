"""Spans of the pipeline's stages: the data of the paper's figure 17."""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Lock, get_ident
from typing import Any, Final, Literal

StageName = Literal["retrieval", "adapters", "compute"]
STAGES: Final[tuple[StageName, ...]] = ("retrieval", "adapters", "compute")
KEPT = 4096


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work on one batch; start and end in seconds of `time.perf_counter`. track: which of those
    that the stage did at the same time, from 0."""

    stage: StageName
    batch: int
    name: str
    start: float
    end: float
    track: int = 0

    @property
    def row(self) -> str:
        """What its row in a picture is called."""
        return row_of(self.stage, self.track)


class Trace:
    """The last spans, from any thread; the oldest are forgotten."""

    def __init__(self, kept: int = KEPT) -> None:
        self._spans: deque[Span] = deque(maxlen=kept)
        self._tracks: dict[tuple[StageName, int], int] = {}
        self._lock = Lock()

    @contextmanager
    def span(self, stage: StageName, batch: int, name: str) -> Iterator[None]:
        """Record how long the block takes, also when it raises."""
        own = stage, get_ident()
        with self._lock:
            within = own in self._tracks
            track = self._tracks[own] if within else self._free(stage)
            self._tracks[own] = track
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                if not within:
                    del self._tracks[own]
                self._spans.append(Span(stage, batch, name, start, time.perf_counter(), track))

    def _free(self, stage: StageName) -> int:
        taken = {track for (other, _), track in self._tracks.items() if other == stage}
        return next(track for track in count() if track not in taken)

    def forget(self) -> None:
        """Drop all spans."""
        with self._lock:
            self._spans.clear()

    def spans(self, since: float = 0.0) -> list[Span]:
        """Those that ended after a time of `time.perf_counter`, by their beginning."""
        with self._lock:
            return sorted((span for span in self._spans if span.end > since), key=lambda span: span.start)

    def chrome(self, since: float = 0.0, *, process: str = "inference worker") -> dict[str, Any]:
        """The spans in Chrome's trace event format, which `chrome://tracing` and Perfetto open: a process of
        this name, a thread for each stage, and for each further track of one, times in microseconds."""
        pid, spans = os.getpid(), self.spans(since)
        events = [
            {
                "ph": "X",
                "name": f"{span.name} {span.batch}",
                "cat": span.stage,
                "pid": pid,
                "tid": _tid(span.stage, span.track),
                "ts": span.start * 1e6,
                "dur": (span.end - span.start) * 1e6,
                "args": {"batch": span.batch},
            }
            for span in spans
        ]
        tracks = {(stage, 0) for stage in STAGES} | {(span.stage, span.track) for span in spans}
        in_order = sorted(tracks, key=lambda track: _tid(*track))
        return {"traceEvents": [*_names(pid, process, in_order), *events], "displayTimeUnit": "ms"}


def row_of(stage: StageName, track: int) -> str:
    """The name of a stage's track in a picture: that of the stage, numbered from the second on."""
    return f"{stage} {track + 1}" if track else stage


def _names(pid: int, process: str, tracks: Iterable[tuple[StageName, int]]) -> Iterator[dict[str, Any]]:
    """What the process and its stages are called, and that the stages stand in the order of the pipeline."""

    def named(what: str, tid: int, **args: object) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}

    yield named("process_name", _tid(STAGES[0], 0), name=process)
    for stage, track in tracks:
        tid = _tid(stage, track)
        yield named("thread_name", tid, name=row_of(stage, track))
        yield named("thread_sort_index", tid, sort_index=tid)


def _tid(stage: StageName, track: int) -> int:
    """From 1: viewers take 0 for the idle thread. Computing comes last, with all its tracks."""
    return 1 + STAGES.index(stage) + len(STAGES) * track
