"""What looking up costs in points and saves in processor time: the table, the cascade and computing in full,
beside fine-tuning of every parameter.

Models are trained as the product does by default, on eight datasets and with three seeds; the trainings are
those of `benchmarks.accuracy`. Processor time is that of the engine of one process. Results are kept: stop it
and start it again. `--committed` computes nothing and lists what is missing.

    python -m benchmarks.frontier
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.__main__ import add_options, schedule_of, settings_of
from benchmarks.accuracy.data import DATASETS, QUICK, cheapest_first
from benchmarks.frontier.figures import Figures
from benchmarks.frontier.measurements import TENANTS, Measurements
from benchmarks.frontier.path_flips import FORMATS, TEXTS
from benchmarks.frontier.serving_cost import Effort
from inference.errors import HplmError
from inference.hplm.devices import pick_dtype

QUICK_EFFORT: Final = Effort(texts=64, repeats=1)
QUICK_FLIPS: Final = 64


def main(argv: Sequence[str] | None = None) -> int:
    """Train and measure what is missing, and print the tables."""
    options = _options(argv)
    if options.threads:
        torch.set_num_threads(options.threads)
    console = Console()
    schedule = schedule_of(options, console)
    measurements = Measurements(schedule, options)
    try:
        figures = Figures(measurements.run())
    except HplmError as error:
        print(f"frontier: {error}", file=sys.stderr)
        return 1
    rows, found = figures.rows(), figures.figures()
    console.out(harness.markdown_table(rows), highlight=False)
    console.print({name: round(value, 4) for name, value in found.items()})
    settings = settings_of(schedule, options) | {
        "datasets": [dataset.name for dataset in options.datasets],
        "effort": asdict(options.effort),
        "tenants": TENANTS,
        "format": options.served_format,
        "flip_texts": options.flip_texts,
        "threads": torch.get_num_threads(),
    }
    if options.json:
        harness.write_json(harness.Report("frontier", settings, rows, found), options.json)
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    add_options(parser)
    parser.add_argument("--dataset", action="append", choices=sorted(DATASETS), help="only this one")
    parser.add_argument("--threads", type=int, help="of PyTorch (default: all cores)")
    parser.add_argument("--format", choices=FORMATS, help="number format (default: as served here)")
    parser.add_argument("--texts", type=int, help="asked for the processor time; 0: do not measure it")
    parser.add_argument("--flip-texts", type=int, help=f"asked on all paths (default: {TEXTS}); 0: none")
    options = parser.parse_args(argv)
    quick = options.quick
    names = options.dataset or (QUICK if quick else DATASETS)
    options.datasets = cheapest_first(DATASETS[name] for name in names)
    options.effort = QUICK_EFFORT if quick else Effort()
    if options.texts is not None:
        options.effort = Effort(options.texts, options.effort.repeats)
    options.served_format = options.format or _served_format()
    if options.flip_texts is None:
        options.flip_texts = QUICK_FLIPS if quick else TEXTS
    return options


def _served_format() -> str:
    return str(pick_dtype("auto", torch.device("cpu"))).removeprefix("torch.")


if __name__ == "__main__":
    sys.exit(main())
