"""What each kind of overlap gives, and what runs when: the paper's table 6 (its ablations) and figure 17.

python -m benchmarks.serving.pipeline --picture trace.svg --trace trace.json
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from html import escape

import numpy as np

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.ceiling import POOL_BYTES, stream_seconds
from benchmarks.serving.timing import interleaved, rates
from benchmarks.serving.world import World
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import SYNCHRONISED, Pipelining, Swapping
from inference.engine.trace import STAGES, Span, row_of

TENANTS, QUICK_TENANTS, BATCHES, REPEATS, SHOWN = 1000, 64, 8, 7, 5
FINE, ONE_BY_ONE = "fine-grained swapping", "synchronised"
RESIDENT = "synchronised, PETs on the device"
MODES = {
    FINE: Pipelining(),
    "coarse swapping": Pipelining(swapping=Swapping.COARSE),
    "no pipelined swapping": Pipelining(swapping=Swapping.NONE),
    "no pipelined retrieval": Pipelining(retrieval=False),
    ONE_BY_ONE: SYNCHRONISED,
    RESIDENT: SYNCHRONISED,
}
"""Of which all but one copy every PET for every batch."""

WIDTH, LANE, BAR, LEFT, TOP, BOTTOM = 960, 44, 28, 84, 12, 30
COLOURS = ("#3b6ea5", "#d9822b", "#4f9d69", "#8e5ea2", "#c44e52", "#64748b")
"""A batch has the same in every stage."""
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the time, where the picture has a label."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write trace and picture where wanted."""
    parser = shared.arguments(__doc__ or "")
    parser.add_argument("--picture", type=harness.output_file, metavar="FILE", help="figure 17, as SVG")
    parser.add_argument(
        "--trace", type=harness.output_file, metavar="FILE", help="the same for Chrome or Perfetto"
    )
    return shared.run(parser, measure, argv)


def measure(options: argparse.Namespace, world: World) -> harness.Report:
    """Every mode."""
    tenants = QUICK_TENANTS if options.quick else TENANTS
    world.store_hplms(tenants)
    repeats = options.repeats or (3 if options.quick else REPEATS)
    pipelines = {name: Pipeline(mode) for name, mode in MODES.items()}
    executors = {
        name: world.executor(pipeline, pool_bytes=POOL_BYTES, pet_bytes=None if name == RESIDENT else 0)
        for name, pipeline in pipelines.items()
    }
    draw = np.random.default_rng(0)
    batches = [world.rows(np.sort(draw.integers(0, tenants, options.rows))) for _ in range(BATCHES)]
    found = interleaved(
        {
            name: lambda _, executor=executor: stream_seconds(executor, batches)  # type: ignore[misc]
            for name, executor in executors.items()
        },
        repeats=repeats,
    )
    rows = rates("mode", found, batches=BATCHES, rows=options.rows)
    spans: dict[str, list[Span]] = {}
    for name in (ONE_BY_ONE, FINE):
        since = time.perf_counter()
        stream_seconds(executors[name], batches)
        spans[name] = pipelines[name].trace.spans(since)
    fine = spans[FINE]
    one_by_one, fine_grained, resident = (
        np.array(found[name].seconds) for name in (ONE_BY_ONE, FINE, RESIDENT)
    )
    ratios, swapped = one_by_one / fine_grained, one_by_one - resident
    figures = {
        "retrieval_share": share(fine, "retrieval"),
        "retrieval_share_synchronised": share(spans[ONE_BY_ONE], "retrieval"),
        "retrieval_hidden": hidden(fine),
        "fine_vs_sync": float(np.median(ratios)),
        "swap_ms": 1000 * float(np.median(swapped)) / BATCHES,
    }
    if options.picture:
        shown = [span for span in fine if span.batch < min(s.batch for s in fine) + SHOWN]
        options.picture.write_text(svg(shown, f"{SHOWN} batches in the pipeline"), encoding="utf-8")
    if options.trace:
        options.trace.write_text(json.dumps(pipelines[FINE].trace.chrome(since)), encoding="utf-8")
    for pipeline in pipelines.values():
        pipeline.close()
    return harness.Report("pipeline", {"tenants": tenants}, rows, figures)


def busy(spans: Sequence[Span], stage: str) -> float:
    """Seconds that a stage was at work."""
    return sum(span.end - span.start for span in spans if span.stage == stage)


def share(spans: Sequence[Span], stage: str) -> float:
    """Of the seconds from the first of these to the last, those that a stage was at work."""
    return busy(spans, stage) / (max(span.end for span in spans) - min(span.start for span in spans))


def hidden(spans: Sequence[Span]) -> float:
    """Of the retrieval's seconds, the share that passed while a batch was computed."""
    computing = [(span.start, span.end) for span in spans if span.stage == "compute"]
    covered = sum(
        max(0.0, min(span.end, end) - max(span.start, start))
        for span in spans
        if span.stage == "retrieval"
        for start, end in computing
    )
    return covered / busy(spans, "retrieval")


def svg(spans: Sequence[Span], title: str) -> str:
    """Three stages against time, one more for each further batch that computes beside another; a bar for each
    piece of work."""
    if not spans:
        return ""
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    scale = (WIDTH - LEFT - 10) / (last - first)
    tracks = 1 + max(span.track for span in spans)
    rows = [*STAGES, *(row_of("compute", track) for track in range(1, tracks))]
    height = TOP + LANE * len(rows) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<style>text { font: 12px sans-serif; fill: #64748b }</style>",
        f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for at, row in enumerate(rows):
        middle = TOP + LANE * at + LANE / 2
        parts.append(f'<text x="8" y="{middle + 4}">{row}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{middle}" y2="{middle}" stroke="#e2e8f0"/>')
    for span in spans:
        x, y = LEFT + (span.start - first) * scale, TOP + LANE * rows.index(span.row) + (LANE - BAR) / 2
        width = max(1.0, (span.end - span.start) * scale)
        colour = COLOURS[span.batch % len(COLOURS)]
        told = f"{span.name} {span.batch}: {1000 * (span.end - span.start):.1f} ms"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}" rx="2">'
            f"<title>{escape(told)}</title></rect>"
        )
    parts += [_tick(LEFT + share * (WIDTH - LEFT - 10), height, share * (last - first)) for share in TICKS]
    return "\n".join([*parts, "</svg>\n"])


def _tick(x: float, height: int, seconds: float) -> str:
    anchor = "end" if x > WIDTH - 60 else "start"
    return f'<text x="{x:.0f}" y="{height - 10}" text-anchor="{anchor}">{1000 * seconds:.0f} ms</text>'


if __name__ == "__main__":
    sys.exit(main())
