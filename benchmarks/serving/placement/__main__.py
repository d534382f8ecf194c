"""How many workers a cluster needs: Punica's figure 13 under a virtual clock.

16 workers, one hour of Poisson arrivals whose rate rises and falls again, prompts and answers as long as
those of an Azure trace. The product's placement decides; a step of a worker takes what a formula says, so the
run needs neither a model nor an accelerator. The same requests are placed on the busiest worker that has
room, on the least loaded one, and in turn.

    python -m benchmarks.serving.placement
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import data_dir
from benchmarks.serving.placement.cluster import Cluster, Outcome, Setup, StepTime, worker_limits
from benchmarks.serving.placement.load import POPULARITIES, Asked, draw, trace_lengths
from benchmarks.serving.placement.policies import POLICIES, ModelAware
from benchmarks.serving.placement.report import figures, over_time, summary
from inference.generation.placement import Policy

LLAMA_7B_ON_A100 = StepTime(fixed=0.0170, row=0.00041, prompt_token=0.00009)
"""Stated, after Punica: a step of 32 rows takes 30 ms (section 5.2), 1.72 times as long as that of one (7.1).
The paper does not tell the time of a prompt's token: 13.5 GFLOP at half of the A100's 312 TFLOP/s."""
KV_BLOCKS = 3072
"""Blocks of 16 tokens of 512 KiB: 24 GiB, what the model leaves of an A100's 40 GB."""
WORKERS, ROWS, LONGEST = 16, 32, 4096
MARGIN = 8
MINUTE = 1 / 60
"""Of an hour. In a quick run, workers start and are consolidated faster, too."""
SEED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate all policies and print the tables."""
    options = _options(argv)
    console = Console()
    trace = options.trace or data_dir() / "traces" / "azure-llm-2023-conv.csv"
    setup = Setup(
        workers=WORKERS,
        limits=worker_limits(options.rows, options.blocks),
        time=StepTime(options.step_ms / 1e3, options.row_ms / 1e3, options.prompt_token_ms / 1e3),
        seconds=600.0 if options.quick else 3600.0,
        prefix=options.prefix,
    )
    lengths = trace_lengths(trace, longest=LONGEST)
    asked = draw(lengths, options.popularity, peak=options.peak, seconds=setup.seconds, seed=SEED)
    outcomes = simulate(asked, setup, console, variants=options.variants)
    settings = {"trace": trace.name, "popularity": options.popularity, "peak": options.peak, **asdict(setup)}
    rows, times = summary(outcomes, setup), over_time(outcomes, setup)
    report = harness.Report("placement", settings, [*rows, *times], figures(outcomes, setup))
    for table in (rows, times):
        console.out(harness.markdown_table(table), highlight=False)
        console.print()
    console.print({name: round(value, 4) for name, value in report.figures.items()})
    if options.json:
        harness.write_json(report, options.json)
    return 0


def simulate(
    asked: Sequence[Asked], setup: Setup, console: Console, *, variants: bool = False
) -> Mapping[str, Outcome]:
    """The same requests under each policy, and with workers that are added and released as placement asks."""
    consolidated = replace(setup, consolidate_s=setup.seconds * MINUTE)
    clusters = {name: Cluster(asked, setup, partial(_by, make)) for name, make in POLICIES.items()}
    elastic = Cluster(
        asked, replace(consolidated, start_s=setup.seconds * MINUTE), partial(_by, POLICIES["busiest"])
    )
    clusters["busiest, workers as needed"] = elastic
    if variants:
        clusters["busiest, consolidated"] = Cluster(asked, consolidated, partial(_by, POLICIES["busiest"]))
        clusters["busiest, model breaks ties"] = Cluster(asked, setup, partial(_by_model, 0))
        clusters[f"busiest, model within {MARGIN} rows"] = Cluster(asked, setup, partial(_by_model, MARGIN))
    outcomes: dict[str, Outcome] = {}
    for name, cluster in clusters.items():
        console.print(f"[dim]{name}[/]", highlight=False)
        outcomes[name] = cluster.run()
    return outcomes


def _by(make: Callable[[], Policy], _: Cluster) -> Policy:
    return make()


def _by_model(margin: int, cluster: Cluster) -> Policy:
    return ModelAware(
        lambda request_id: cluster.asked[int(request_id)].model,
        lambda worker: cluster.workers[worker].models,
        margin,
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--trace", type=Path, help="Azure trace with the lengths (default: in HMI_DATA_DIR)")
    parser.add_argument("--peak", type=float, default=45.0, help="requests a second at the highest")
    parser.add_argument("--popularity", choices=POPULARITIES, default="skewed", help="of the models")
    parser.add_argument("--rows", type=int, default=ROWS, help="requests in a step")
    parser.add_argument("--blocks", type=int, default=KV_BLOCKS, help="of a worker's KV cache, of 16 tokens")
    step = LLAMA_7B_ON_A100
    parser.add_argument("--step-ms", type=float, default=1e3 * step.fixed, help="of a step without rows")
    parser.add_argument("--row-ms", type=float, default=1e3 * step.row, help="of a step for each row")
    parser.add_argument(
        "--prompt-token-ms", type=float, default=1e3 * step.prompt_token, help="for each token of a prompt"
    )
    parser.add_argument(
        "--prefix",
        type=int,
        default=0,
        help="tokens that the prompts of a model have in common, computed once where they are cached",
    )
    parser.add_argument(
        "--variants",
        action="store_true",
        help="also consolidation, and workers that have the model preferred",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
