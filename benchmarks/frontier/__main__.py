"""Accuracy against cost: dedicated models, adapters over computed layers, the table, and the cascade.

The test metric of each method on each dataset, beside processor time of a text through the engine of one
process, waiting times, and multiplications; the tables of Tabi; calibration; and whether a text's answer
depends on what else is computed. Trainings and measurements are kept: stop it and start it again.

    python -m benchmarks.frontier
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import DATASETS, QUICK
from benchmarks.accuracy.grid import EPOCHS, SEEDS
from benchmarks.accuracy.workbench import CORE_HOURS
from benchmarks.frontier.figures import Figures
from benchmarks.frontier.measurements import LOSSES, TENANTS, Measurements
from benchmarks.frontier.path_flips import FORMATS, TEXTS
from benchmarks.frontier.serving_cost import Effort
from benchmarks.result_cache import add_committed
from inference.errors import HplmError
from inference.hplm.devices import pick_dtype

QUICK_EPOCHS, QUICK_ROWS, QUICK_TOKENS = 1, 200, 100_000
QUICK_EFFORT = Effort(texts=64, repeats=1, lone=8)
QUICK_FLIPS = 64


def main(argv: Sequence[str] | None = None) -> int:
    """Train and measure what is missing, and print the tables."""
    options = _options(argv)
    if options.threads:
        torch.set_num_threads(options.threads)
    console = Console()
    try:
        measurements = Measurements(options, console)
        figures = Figures(measurements.run())
    except HplmError as error:
        print(f"frontier: {error}", file=sys.stderr)
        return 1
    tables = figures.tables()
    for title, rows in tables.items():
        console.print(f"\n{title}\n", highlight=False)
        console.out(harness.markdown_table(rows), highlight=False)
    console.print({name: round(value, 4) for name, value in figures.figures().items()})
    kept = measurements.report_kept()
    if options.json:
        flat = [{"table": title, **row} for title, rows in tables.items() for row in rows]
        harness.write_json(
            harness.Report("frontier", _settings(options) | kept, flat, figures.figures()), options.json
        )
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    add_committed(parser)
    parser.add_argument("--dataset", action="append", choices=sorted(DATASETS), help="only this one")
    parser.add_argument("--seeds", type=int, help=f"of each dataset (default: {SEEDS})")
    parser.add_argument("--rows", type=int, help="of each split that are used, at most, drawn by chance")
    parser.add_argument("--epochs", type=int, help="at most")
    parser.add_argument("--core-hours", type=float, default=CORE_HOURS, help="processor hours in all")
    parser.add_argument("--tokens", type=int, help="that the conversion learns from")
    parser.add_argument("--checkpoint", type=Path, help="folder to convert, if not the demo root's")
    parser.add_argument("--threads", type=int, help="of PyTorch (default: all cores)")
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this number format")
    parser.add_argument("--texts", type=int, help="asked for the processor time; 0: do not measure it")
    parser.add_argument("--flip-texts", type=int, help=f"asked on all paths (default: {TEXTS}); 0: none")
    return _completed(parser.parse_args(argv))


def _completed(options: argparse.Namespace) -> argparse.Namespace:
    """With what the options leave open."""
    quick = options.quick
    effort = QUICK_EFFORT if quick else Effort()
    options.datasets = options.dataset or (QUICK if quick else tuple(DATASETS))
    options.seeds = options.seeds or (1 if quick else SEEDS)
    options.epochs = options.epochs or (QUICK_EPOCHS if quick else EPOCHS)
    options.rows = options.rows or (QUICK_ROWS if quick else None)
    options.tokens = options.tokens or (QUICK_TOKENS if quick else None)
    texts = effort.texts if options.texts is None else options.texts
    options.effort = Effort(texts, effort.repeats if texts else 0, effort.lone)
    options.formats = options.format or (FORMATS[:1] if quick else FORMATS)
    served = str(pick_dtype("auto", torch.device("cpu"))).removeprefix("torch.")
    options.cost_format = options.format[0] if options.format else served
    if options.flip_texts is None:
        options.flip_texts = QUICK_FLIPS if quick else TEXTS
    return options


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "datasets": list(options.datasets),
        "seeds": options.seeds,
        "epochs": options.epochs,
        "rows": options.rows,
        "tokens": options.tokens,
        "core_hours": options.core_hours,
        "effort": asdict(options.effort),
        "losses": list(LOSSES),
        "tenants": TENANTS,
        "formats": list(options.formats),
        "cost_format": options.cost_format,
        "flip_texts": options.flip_texts,
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    sys.exit(main())
