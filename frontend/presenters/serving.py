"""The inference workers, and the traces of their pipelines."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from frontend.presenters.charts import Tile
from inference.api.serving import Serving
from inference.queueing.status import DecoderStatus, Recently, TracedSpan, WorkerStatus
from tenants.base.file_sizes import file_size
from tenants.base.plurals import counted

TRACKS = ("retrieval", "adapters", "compute")
COLOURS = 5
MAX_PAUSE = 0.04
"""Longer pauses are shortened to this share of the busy time."""
MIN_WIDTH = 0.002
"""The width of the shortest slice."""


@dataclass(frozen=True, slots=True)
class TraceSlice:
    """A piece of work. `start` and `length` are shares of its width; `colour` is that of its batch."""

    start: float
    length: float
    colour: int
    title: str


@dataclass(frozen=True, slots=True)
class TraceTrack:
    """A row of a trace: the work of one pipeline stage."""

    name: str
    slices: list[TraceSlice]


@dataclass(frozen=True, slots=True)
class PipelineTrace:
    """The trace of the last batches: `ms` of work, with shortened pauses."""

    tracks: list[TraceTrack]
    ms: float


@dataclass(frozen=True, slots=True)
class DecoderRow:
    """A decoder of a worker. `used` of `blocks` of its key-value cache belong to completions under way."""

    name: str
    completions: str
    cache: str
    used: int
    blocks: int


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker. `last_batch` and `trace` are None before its first batch."""

    status: WorkerStatus
    memory: str
    decoders: list[DecoderRow]
    last_batch: datetime | None
    trace: PipelineTrace | None


def serving_tiles(serving: Serving) -> list[Tile]:
    """Return the figures of all workers: sums, and the latencies of the slowest worker."""
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
            f"of {counted(answered, 'request')}" if answered else "",
        ),
        Tile("p95 latency", worst("p95_ms"), "last 30 s"),
        Tile("p99 latency", worst("p99_ms"), "last 30 s"),
        Tile("Outstanding", f"{serving.outstanding:,}", f"of {serving.capacity:,}"),
    ]


def generation_tiles(serving: Serving) -> list[Tile]:
    """Return the figures of generation on all workers: sums, and the latencies of the slowest worker.

    Returns nothing if no worker serves a generative root.
    """
    decoders = [decoder for worker in serving.workers for decoder in worker.decoders]
    if not decoders:
        return []
    running, waiting, tokens = (
        sum(getattr(one, name) for one in decoders) for name in ("running", "waiting", "generated_tokens")
    )
    recent = [worker.generated for worker in serving.workers]
    median, p95 = (
        max(getattr(one, name) for one in recent) for name in ("first_token_p50_ms", "first_token_p95_ms")
    )
    return [
        Tile("Completions", f"{sum(one.completions for one in recent):,}", "last 30 s"),
        Tile("Tokens per second", f"{sum(one.tokens_per_s for one in recent):,.1f}", "last 30 s"),
        Tile(
            "Time to first token",
            _milliseconds(median) if median else "–",
            f"median; p95 {_milliseconds(p95)}" if median else "",
        ),
        Tile("Running", f"{running:,}", f"{waiting:,} waiting"),
        Tile("Generated tokens", f"{tokens:,}", "since the workers started"),
    ]


def worker_rows(serving: Serving) -> list[WorkerRow]:
    """Return the rows of all workers that have a heartbeat."""
    return [
        WorkerRow(
            worker,
            file_size(worker.resident_bytes),
            [_decoder_row(decoder) for decoder in worker.decoders],
            datetime.fromtimestamp(worker.last_batch_at, UTC) if worker.last_batch_at else None,
            pipeline_trace(worker.recently),
        )
        for worker in serving.workers
    ]


def _decoder_row(decoder: DecoderStatus) -> DecoderRow:
    used, cached, all_blocks = (
        f"{blocks * decoder.block_size:,}"
        for blocks in (decoder.used_blocks, decoder.cached_blocks, decoder.blocks)
    )
    return DecoderRow(
        decoder.name,
        f"{decoder.running:,} running, {decoder.waiting:,} waiting, {decoder.completions:,} ended;"
        f" {counted(decoder.generated_tokens, 'token')} generated,"
        f" {counted(decoder.preemptions, 'preemption')}",
        f"{used} of {all_blocks} tokens, {cached} cached",
        decoder.used_blocks,
        decoder.blocks,
    )


def _milliseconds(figure: float) -> str:
    return f"{figure:,.0f} ms" if figure >= 10 else f"{figure:.1f} ms"


def pipeline_trace(recently: Recently) -> PipelineTrace | None:
    """Return the trace of the last batches; None before the first batch.

    It has three tracks, and one for each further batch that computes in parallel.
    """
    busy = _busy_ms(recently.spans)
    if not busy:
        return None
    spans = _shorten_pauses(recently.spans, longest_pause=busy * MAX_PAUSE)
    end = max(span.start + span.length for span in spans)
    names = [*TRACKS, *sorted({span.stage for span in spans} - {*TRACKS})]
    return PipelineTrace(
        [TraceTrack(name, [_slice(span, end) for span in spans if span.stage == name]) for name in names],
        busy,
    )


def _slice(span: TracedSpan, end: float) -> TraceSlice:
    title = f"{span.name} batch {span.batch}: {span.length:.1f} ms"
    return TraceSlice(span.start / end, max(MIN_WIDTH, span.length / end), span.batch % COLOURS, title)


def _busy_ms(spans: Iterable[TracedSpan]) -> float:
    """Return the time in which at least one track was busy."""
    busy = end = 0.0
    for span in sorted(spans, key=lambda span: span.start):
        busy += max(0.0, span.start + span.length - max(end, span.start))
        end = max(end, span.start + span.length)
    return busy


def _shorten_pauses(spans: Iterable[TracedSpan], *, longest_pause: float) -> list[TracedSpan]:
    """Return the spans sorted by start, with shortened pauses. An idle worker would show mostly pauses."""
    cut = end = 0.0
    shortened = []
    for span in sorted(spans, key=lambda span: span.start):
        cut += max(0.0, span.start - end - longest_pause)
        end = max(end, span.start + span.length)
        shortened.append(replace(span, start=span.start - cut))
    return shortened
