"""The paper's tables 3 and 7 and its figure 14 on real data: the product's models beside fine-tuning of every
parameter, and their parts.

Every method has the same grid: three learning rates with the first seed, then three seeds with the best of
them on dev. A training has up to 15 epochs and stops early by dev. What decides between the levels is fitted
on dev, too. The test split is read for the chosen learning rate alone.

Results are kept, and a killed run goes on. Trainings start until all that the table rests on has cost the
budget; `--committed` prints what is kept.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy import tenant_curves
from benchmarks.accuracy.comparison import Comparison
from benchmarks.accuracy.data import DATASETS, QUICK, SCIENTIFIC, Dataset, data_dir, has_data
from benchmarks.accuracy.grid import EPOCHS, MAIN, PATIENCE, SEEDS, Cell, Grid
from benchmarks.accuracy.methods import DEDICATED, HBERT, METHODS, Method
from benchmarks.accuracy.tenant_curves import TenantCurves, figures_of, rows_of
from benchmarks.accuracy.trainings import Shape
from benchmarks.accuracy.workbench import (
    CORE_HOURS,
    SECONDS_PER_HOUR,
    Converted,
    Workbench,
    conversion_settings,
)
from benchmarks.result_cache import add_committed
from inference.hplm.artifact_files import read_artifact_json
from inference.text.tokenization import ROOT_FILE

CUTS = ("3+3", "3+2")
QUICK_EPOCHS, QUICK_TOKENS, QUICK_TENANTS = 3, 100_000, (1_000,)
OTHERS = tuple(method for method in METHODS.values() if method not in MAIN)
LEGEND = "[n of m]: n of the cell's m trainings are finished. –: none, or a mean that lacks datasets."


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing within the budget, and print the tables."""
    options = _options(argv)
    console = Console()
    report = Accuracy(options, console).run()
    if options.json:
        harness.write_json(report, options.json)
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    add_committed(parser)
    parser.add_argument("--dataset", action="append", choices=sorted(DATASETS), help="only this one")
    parser.add_argument("--method", action="append", choices=sorted(METHODS), help="only this one")
    parser.add_argument(
        "--cut",
        action="append",
        type=Shape.parse,
        metavar="LOWER+UPPER",
        help=f"of layers (default: {' and '.join(CUTS)}); all but the first for hBERT alone",
    )
    parser.add_argument("--core-hours", type=float, default=CORE_HOURS, help="processor hours in all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="with the best learning rate")
    parser.add_argument("--epochs", type=int, help="at most, of each training")
    parser.add_argument("--patience", type=int, default=PATIENCE, help="epochs without a better dev metric")
    parser.add_argument("--tenants", action="append", type=int, help="numbers of tenants of figure 14")
    parser.add_argument("--tokens", type=int, help="that each conversion learns from")
    parser.add_argument("--checkpoint", type=Path, help="folder to convert, if not the demo root's")
    options = parser.parse_args(argv)
    quick = options.quick
    options.datasets = [DATASETS[name] for name in options.dataset or (QUICK if quick else DATASETS)]
    options.methods = [METHODS[name] for name in options.method or METHODS]
    options.cuts = options.cut or [Shape.parse(cut) for cut in (CUTS[:1] if quick else CUTS)]
    options.epochs = options.epochs or (QUICK_EPOCHS if quick else EPOCHS)
    options.tokens = options.tokens or (QUICK_TOKENS if quick else None)
    options.tenants = options.tenants or (QUICK_TENANTS if quick else tenant_curves.TENANTS)
    return options


class Accuracy:
    """The trainings of the benchmark in their order, and its tables."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self._options, self._console = options, console
        self._bench = Workbench(
            console,
            options.checkpoint,
            conversion_settings(options.tokens),
            quick=options.quick,
            committed=options.committed,
        )
        self._grid = Grid(
            self._bench,
            epochs=options.epochs,
            patience=options.patience,
            seeds=options.seeds,
            may_train=lambda: self._bench.may_train(options.core_hours),
        )
        self._datasets: list[Dataset] = (
            sorted(options.datasets, key=_size) if has_data() else options.datasets
        )
        first = options.cuts[0]
        self._main = self._cells(MAIN, first)
        self._others = self._cells(OTHERS, first)
        self._cuts = [cell for cut in options.cuts[1:] for cell in self._cells([HBERT], cut)]
        self._scientific = [cell for cell in self._main if cell.dataset.name in SCIENTIFIC]

    def run(self) -> harness.Report:
        """Train, the most important comparison first, then print what is there."""
        self._grid.run(self._main)
        self._grid.run(self._cuts)
        curves = TenantCurves(self._grid, self._scientific, self._options.tenants) if has_data() else None
        points = curves.run() if curves else []
        self._grid.run(self._others)
        cells = [*self._main, *self._cuts, *self._others]
        comparison = Comparison(self._grid, cells, self._options.cuts)
        rows, rates = comparison.rows(), comparison.learning_rates()
        figures = comparison.figures() | figures_of(points)
        self._print("Test metric in points, mean ± deviation over seeds.", LEGEND, rows)
        self._print("Learning rates, chosen on dev.", "(end): at an end of the grid.", rates)
        self._print("Test metric of tenants with few rows each, in points.", "", rows_of(points))
        self._console.print({name: round(value, 3) for name, value in figures.items()})
        kept = self._bench.report_kept()
        return harness.Report("accuracy", self._settings() | kept, rows, figures)

    def _cells(self, methods: Sequence[Method], shape: Shape) -> list[Cell]:
        """Those of these methods that are wanted, dataset by dataset. A dedicated model has all layers,
        whatever the cut."""
        whole = Shape(self._bench.layers // 2, self._bench.layers - self._bench.layers // 2)
        return [
            Cell(method, dataset, whole if method is DEDICATED else shape)
            for dataset in self._datasets
            for method in methods
            if method in self._options.methods
        ]

    def _settings(self) -> dict[str, Any]:
        options, shape = self._options, self._options.cuts[0]
        trained = not options.committed and any(
            self._grid.covered(cell) for cell in self._main if cell.shape == shape
        )
        return {
            "cuts": [str(cut) for cut in options.cuts],
            "epochs": options.epochs,
            "patience": options.patience,
            "seeds": options.seeds,
            "core_hours": options.core_hours,
            "core_hours_used": round(self._bench.processor_seconds / SECONDS_PER_HOUR, 2),
            "conversion": _conversion_figures(self._bench.root(shape)) if trained else None,
        }

    def _print(self, title: str, legend: str, rows: Sequence[harness.Row]) -> None:
        self._console.print(f"\n{title} {legend}\n", markup=False, highlight=False)
        self._console.out(harness.markdown_table(rows), highlight=False)


def _size(dataset: Dataset) -> int:
    """Of the training file, so that the cheapest dataset comes first."""
    return (data_dir() / dataset.name / "train.txt").stat().st_size


def _conversion_figures(converted: Converted) -> dict[str, Any]:
    kept = ("unconverted", "closed_form", "mixer", "distilled", "seconds", "cpu_seconds")
    report = read_artifact_json(converted.root / ROOT_FILE)["report"] | converted.report
    return {name: report[name] for name in kept if name in report}


if __name__ == "__main__":
    sys.exit(main())
