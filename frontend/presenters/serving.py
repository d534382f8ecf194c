"""The inference workers as the serving page shows them."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.template.defaultfilters import filesizeformat

from frontend.presenters.usage import Tile
from inference.api.serving import Serving
from inference.queueing.status import Recently, WorkerStatus

LANES = ("retrieval", "adapters", "compute")
COLOURS = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work in the picture of the pipeline: shares of its width, and a colour by batch."""

    start: float
    length: float
    colour: int
    said: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of the picture."""

    name: str
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class Picture:
    """What the pipeline did for the last batches, over so many milliseconds."""

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
        return f"{max(getattr(one, name) for one in recent):,.0f} ms" if recent else "–"

    ready = sum(worker.state == "ready" for worker in serving.workers)
    return [
        Tile("Workers ready", str(ready), f"of {len(serving.workers)}"),
        Tile("Rows a second", f"{sum(one.rows_per_s for one in recent):,.1f}", "last 30 s"),
        Tile("Median latency", worst("p50_ms"), "last 30 s"),
        Tile("p95", worst("p95_ms")),
        Tile("p99", worst("p99_ms")),
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


def picture_of(recently: Recently) -> Picture | None:
    """Three lanes; None before the first batch."""
    spans = recently.spans
    end = max((span.start + span.length for span in spans), default=0.0)
    if not end:
        return None
    return Picture(
        [
            Lane(
                name,
                [
                    Piece(
                        span.start / end,
                        max(0.002, span.length / end),
                        span.batch % COLOURS,
                        f"{span.name} batch {span.batch}: {span.length:.1f} ms",
                    )
                    for span in spans
                    if span.lane == name
                ],
            )
            for name in LANES
        ],
        end,
    )
