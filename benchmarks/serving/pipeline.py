"""What each kind of overlap gives, and what runs when: the paper's table 6 (its ablations) and figure 17.

python -m benchmarks.serving.pipeline --picture trace.svg --trace trace.json
"""

import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.ceiling import POOL_BYTES, stream_seconds
from benchmarks.serving.picture import svg
from benchmarks.serving.timing import interleaved, rates
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import SYNCHRONISED, Pipelining, Swapping
from inference.engine.trace import Span

TENANTS, BATCHES, REPEATS, SHOWN = 1000, 8, 7, 5
FINE, ONE_BY_ONE = "fine-grained swapping", "synchronised"
MODES = {
    FINE: Pipelining(),
    "coarse swapping": Pipelining(swapping=Swapping.COARSE),
    "no pipelined swapping": Pipelining(swapping=Swapping.NONE),
    "no pipelined retrieval": Pipelining(retrieval=False),
    ONE_BY_ONE: SYNCHRONISED,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write trace and picture where wanted."""
    parser = shared.arguments(__doc__ or "")
    parser.add_argument("--picture", type=harness.output_file, metavar="FILE", help="figure 17, as SVG")
    parser.add_argument(
        "--trace", type=harness.output_file, metavar="FILE", help="the same for Chrome or Perfetto"
    )
    options = parser.parse_args(argv)
    on = shared.machine(options)
    world = shared.world(options, on)
    tenants = 64 if options.quick else TENANTS
    world.store_hplms(tenants)
    repeats = options.repeats or (3 if options.quick else REPEATS)
    pipelines = {name: Pipeline(mode) for name, mode in MODES.items()}
    executors = {
        name: world.executor(pipeline, pool_bytes=POOL_BYTES, pet_bytes=0)
        for name, pipeline in pipelines.items()
    }
    draw = np.random.default_rng(0)
    batches = [world.rows(draw.integers(0, tenants, options.rows), options.tokens) for _ in range(BATCHES)]
    found = interleaved(
        {
            name: lambda _, executor=executor: stream_seconds(executor, batches)  # type: ignore[misc]
            for name, executor in executors.items()
        },
        repeats=repeats,
    )
    rows = rates("mode", found, batches=BATCHES, rows=options.rows)
    lanes: dict[str, list[Span]] = {}
    for name in (ONE_BY_ONE, FINE):
        since = time.perf_counter()
        stream_seconds(executors[name], batches)
        trace = pipelines[name].trace
        lanes[name] = trace.spans(since)
    spans = lanes[FINE]
    synchronised, fine = found[ONE_BY_ONE].seconds, found[FINE].seconds
    figures = {
        "retrieval_share": share(spans, "retrieval"),
        "retrieval_share_synchronised": share(lanes[ONE_BY_ONE], "retrieval"),
        "retrieval_hidden": hidden(spans),
        "fine_vs_sync": float(np.median(np.array(synchronised) / np.array(fine))),
    }
    print(harness.markdown_table(rows))
    print(figures)
    if options.picture:
        shown = [span for span in spans if span.batch < min(s.batch for s in spans) + SHOWN]
        options.picture.write_text(svg(shown, f"{SHOWN} batches in the pipeline"), encoding="utf-8")
    if options.trace:
        options.trace.write_text(json.dumps(trace.chrome(since)), encoding="utf-8")
    if options.json:
        settings = {**on.told, "encoder": world.encoder.name, "pet": options.pet, "tenants": tenants}
        harness.write_json(harness.Report("pipeline", settings, rows, figures), options.json)
    for pipeline in pipelines.values():
        pipeline.close()
    return 0


def busy(spans: Sequence[Span], lane: str) -> float:
    """Seconds that a lane was at work."""
    return sum(span.end - span.start for span in spans if span.lane == lane)


def share(spans: Sequence[Span], lane: str) -> float:
    """Of the seconds from the first of these to the last, those that a lane was at work."""
    return busy(spans, lane) / (max(span.end for span in spans) - min(span.start for span in spans))


def hidden(spans: Sequence[Span]) -> float:
    """Of the retrieval's seconds, the share that passed while a batch was computed."""
    computing = [(span.start, span.end) for span in spans if span.lane == "compute"]
    covered = sum(
        max(0.0, min(span.end, end) - max(span.start, start))
        for span in spans
        if span.lane == "retrieval"
        for start, end in computing
    )
    return covered / busy(spans, "retrieval")


if __name__ == "__main__":
    sys.exit(main())
