"""The inference workers as the serving page shows them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.template.defaultfilters import filesizeformat, pluralize

from frontend.presenters.charts import Tile
from inference.api.serving import Serving
from inference.queueing.status import Recently, TracedSpan, WorkerStatus

LANES = ("retrieval", "adapters", "compute")
COLOURS = 5
PAUSE = 0.04
"""The longest pause that the picture shows, as a share of the time at work."""
LEAST_SEEN = 0.002
"""The width of the shortest piece of work."""


@dataclass(frozen=True, slots=True)
class TracePiece:
    """A piece of work in the picture of the pipeline: shares of its width, and a colour by batch."""

    start: float
    length: float
    colour: int
    said: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of the picture."""

    name: str
    pieces: list[TracePiece]


@dataclass(frozen=True, slots=True)
class Picture:
    """What the pipeline did for the last batches: so many milliseconds of work, with the pauses cut short."""

    lanes: list[Lane]
    ms: float


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker of the table. last_batch: when, None before the first."""

    status: WorkerStatus
    memory: str
    last_batch: datetime | None
    picture: Picture | None


def serving_tiles(serving: Serving) -> list[Tile]:
    """The figures at the head: sums over the workers, and of latencies the worst worker's."""
    recent = [worker.recently for worker in serving.workers if worker.recently.requests]

    def worst(name: str) -> str:
        return _milliseconds(max(getattr(one, name) for one in recent)) if recent else "–"

    ready = sum(worker.state == "ready" for worker in serving.workers)
    answered = sum(one.requests for one in recent)
    return [
        Tile("Workers ready", str(ready), f"of {len(serving.workers)}"),
        Tile("Rows per second", f"{sum(one.rows_per_s for one in recent):,.1f}", "last 30 s"),
        Tile(
            "Median latency",
            worst("p50_ms"),
            f"of {answered:,} request{pluralize(answered)}" if answered else "",
        ),
        Tile("p95 latency", worst("p95_ms"), "last 30 s"),
        Tile("p99 latency", worst("p99_ms"), "last 30 s"),
        Tile("Outstanding", f"{serving.outstanding:,}", f"of {serving.capacity:,}"),
    ]


def worker_rows(serving: Serving) -> list[WorkerRow]:
    """Every worker that has a heartbeat."""
    return [
        WorkerRow(
            worker,
            filesizeformat(worker.resident_bytes),
            datetime.fromtimestamp(worker.last_batch_at, UTC) if worker.last_batch_at else None,
            picture_of(worker.recently),
        )
        for worker in serving.workers
    ]


def _milliseconds(figure: float) -> str:
    return f"{figure:,.0f} ms" if figure >= 10 else f"{figure:.1f} ms"


def picture_of(recently: Recently) -> Picture | None:
    """Three lanes, and one more for each further batch that computes beside the first; None before the first
    batch."""
    busy = _busy_ms(recently.spans)
    if not busy:
        return None
    spans = _closer(recently.spans, longest_pause=busy * PAUSE)
    end = max(span.start + span.length for span in spans)
    names = [*LANES, *sorted({span.lane for span in spans} - {*LANES})]
    return Picture(
        [Lane(name, [_piece(span, end) for span in spans if span.lane == name]) for name in names], busy
    )


def _piece(span: TracedSpan, end: float) -> TracePiece:
    said = f"{span.name} batch {span.batch}: {span.length:.1f} ms"
    return TracePiece(span.start / end, max(LEAST_SEEN, span.length / end), span.batch % COLOURS, said)


def _busy_ms(spans: Iterable[TracedSpan]) -> float:
    """How long at least one lane was at work."""
    busy = end = 0.0
    for span in sorted(spans, key=lambda span: span.start):
        busy += max(0.0, span.start + span.length - max(end, span.start))
        end = max(end, span.start + span.length)
    return busy


def _closer(spans: Iterable[TracedSpan], *, longest_pause: float) -> list[TracedSpan]:
    """The spans by their beginning, with the pauses in which no lane works cut short: of a quiet worker there
    would be little else to see."""
    cut = end = 0.0
    closer = []
    for span in sorted(spans, key=lambda span: span.start):
        cut += max(0.0, span.start - end - longest_pause)
        end = max(end, span.start + span.length)
        closer.append(replace(span, start=span.start - cut))
    return closer
