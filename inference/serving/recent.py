"""Rates and latencies of the last half minute, for the worker's status."""

import time
from collections import deque
from collections.abc import Callable, Iterable

from msgspec.structs import astuple

from inference.cascade.dispatcher import Coverage, Level
from inference.engine.rows import Answered
from inference.engine.trace import Trace
from inference.queueing.status import Levels, Recently, RecentlyGenerated, TracedSpan

WINDOW_S = 30.0
KEPT = 4096
LEAST_BEHIND_S = 1.0
"""Rates need at least so many seconds."""
BATCHES_SHOWN = 5


class Recent:
    """Rows and requests of the last half minute, at most KEPT of each. Owned by the loop's thread; any
    thread may call `rates`."""

    def __init__(self, trace: Trace, clock: Callable[[], float] = time.monotonic) -> None:
        self._trace, self._clock = trace, clock
        self._begun = clock()
        self._rows: deque[tuple[float, int, Levels]] = deque(maxlen=KEPT)
        self._latencies: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._behind: deque[tuple[float, int, int, float]] = deque(maxlen=KEPT)

    def computed(self, rows: int, answered: Iterable[Answered] = ()) -> None:
        """A batch of so many rows was computed, and these of them were answered."""
        self._rows.append((self._clock(), rows, _levels(answered)))

    def answered(self, seconds: float) -> None:
        """A request was answered so long after it was sent."""
        self._latencies.append((self._clock(), seconds))

    def behind(self, answered: int, tokens: int, seconds: float) -> None:
        """So many requests of so many tokens were answered in so many seconds during which others waited."""
        self._behind.append((self._clock(), answered, tokens, seconds))

    def rates(self) -> Recently:
        """The figures of the window, and the last batches in the pipeline."""
        now = self._clock()
        since = self._since(now)
        batches = [(rows, levels) for at, rows, levels in list(self._rows) if at >= since]
        rows = sum(rows for rows, _ in batches)
        waited = sorted(seconds for at, seconds in list(self._latencies) if at >= since)
        p50, p95, p99 = (1000 * _quantile(waited, share) for share in (0.5, 0.95, 0.99))
        behind_per_s, behind_tokens_per_s = self._behind_per_s(since)
        return Recently(
            rows_per_s=rows / max(1.0, now - since),
            requests=len(waited),
            p50_ms=p50,
            p95_ms=p95,
            p99_ms=p99,
            spans=self._spans(),
            behind_per_s=behind_per_s,
            behind_tokens_per_s=behind_tokens_per_s,
            levels=_sum(levels for _, levels in batches),
        )

    def _since(self, now: float) -> float:
        """Where the window begins: later where it has more batches than are kept."""
        since = max(self._begun, now - WINDOW_S)
        return max(since, self._rows[0][0]) if len(self._rows) == KEPT else since

    def _behind_per_s(self, since: float) -> tuple[float, float]:
        """Requests, and their tokens."""
        turns = [turn for at, *turn in list(self._behind) if at >= since]
        answered, tokens, seconds = map(sum, zip(*turns, strict=True)) if turns else (0, 0, 0.0)
        return (answered / seconds, tokens / seconds) if seconds >= LEAST_BEHIND_S else (0.0, 0.0)

    def _spans(self) -> tuple[TracedSpan, ...]:
        spans = self._trace.spans()
        done = sorted({span.batch for span in spans if span.stage == "compute"})[-BATCHES_SHOWN:]
        shown = [span for span in spans if span.batch in done]
        start = min((span.start for span in shown), default=0.0)
        return tuple(
            TracedSpan(
                span.row,
                span.batch,
                span.name,
                round(1000 * (span.start - start), 2),
                round(1000 * (span.end - span.start), 2),
            )
            for span in shown
        )


class RecentGeneration:
    """Tokens and completions of the last half minute, at most KEPT of each. Owned by the loop's thread; any
    thread may call `rates`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._tokens: deque[tuple[float, int]] = deque(maxlen=KEPT)
        self._first_tokens: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._ended: deque[float] = deque(maxlen=KEPT)

    def generated(self, tokens: int) -> None:
        """A step generated so many tokens."""
        self._tokens.append((self._clock(), tokens))

    def began(self, seconds: float) -> None:
        """A completion had its first token so long after it was sent."""
        self._first_tokens.append((self._clock(), seconds))

    def ended(self) -> None:
        """A completion ended without an error."""
        self._ended.append(self._clock())

    def rates(self) -> RecentlyGenerated:
        """The figures of the window. Rates are of a shorter one if it has more steps than are kept."""
        now = self._clock()
        since = max(self._begun, now - WINDOW_S)
        steps = list(self._tokens)
        begun = max(since, steps[0][0]) if len(steps) == KEPT else since
        waited = sorted(seconds for at, seconds in list(self._first_tokens) if at >= since)
        return RecentlyGenerated(
            completions=sum(at >= since for at in list(self._ended)),
            tokens_per_s=sum(tokens for at, tokens in steps if at >= begun) / max(1.0, now - begun),
            first_token_p50_ms=1000 * _quantile(waited, 0.5),
            first_token_p95_ms=1000 * _quantile(waited, 0.95),
        )


def _levels(answered: Iterable[Answered]) -> Levels:
    found = Coverage()
    table = escalated = full = 0
    for each in answered:
        found += each.coverage
        full += each.row.level is Level.FULL
        escalated += each.escalates
        table += each.row.level is Level.TABLE and not each.escalates
    return Levels(found.whole, found.part, found.unigram, table, escalated, full)


def _sum(levels: Iterable[Levels]) -> Levels:
    return Levels(*(sum(column) for column in zip(*map(astuple, levels), strict=True)))


def _quantile(ordered: list[float], share: float) -> float:
    """The value below which such a share lies; 0 of nothing."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
