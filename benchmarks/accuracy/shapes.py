"""Shared by the benchmarks of n-grams and of the split: one root per shape, and three models on each."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.comparison import mean_and_deviation
from benchmarks.accuracy.data import DATASETS, GENERAL, Dataset
from benchmarks.accuracy.grid import EPOCHS, PATIENCE, SEEDS
from benchmarks.accuracy.methods import HBERT
from benchmarks.accuracy.trainings import Shape, Training
from benchmarks.accuracy.workbench import ALPHA, Workbench, conversion_settings
from inference.hplm.fragments import level_name

QUICK_TOKENS, QUICK_EPOCHS = 100_000, 3


def run(name: str, description: str, shapes: Sequence[Shape], argv: Sequence[str] | None) -> int:
    """Run a benchmark over shapes and print its table; cached results are reused."""
    parser = harness.arguments(description)
    parser.add_argument("--dataset", default="NCBI-disease", choices=sorted(DATASETS))
    parser.add_argument("--tokens", type=int, help="that each conversion learns from")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="models on each root")
    parser.add_argument("--epochs", type=int, help="at most, of each training")
    options = parser.parse_args(argv)
    console = Console()
    tokens = options.tokens or (QUICK_TOKENS if options.quick else None)
    epochs = options.epochs or (QUICK_EPOCHS if options.quick else EPOCHS)
    bench = Workbench(console, conversion=conversion_settings(tokens))
    dataset = DATASETS[options.dataset]
    rows, figures = [], {}
    for shape in shapes:
        trainings = [_training(dataset, shape, seed, epochs) for seed in range(options.seeds)]
        row, metric = _measure(bench, shape, trainings)
        rows.append(row)
        figures[f"metric_{shape.n}_{shape}"] = metric
    console.out(harness.markdown_table(rows), highlight=False)
    if options.json:
        settings = {"dataset": dataset.name, "tokens": tokens, "epochs": epochs, "seeds": options.seeds}
        harness.write_json(harness.Report(name, settings, rows, figures), options.json)
    return 0


def _training(dataset: Dataset, shape: Shape, seed: int, epochs: int) -> Training:
    """With the middle learning rate of the grid, which stays the same for all shapes."""
    settings = HBERT.settings(learning_rate=HBERT.rate, seed=seed, epochs=epochs, patience=PATIENCE)
    return Training(HBERT, dataset, settings, shape)


def _measure(bench: Workbench, shape: Shape, trainings: Sequence[Training]) -> tuple[harness.Row, float]:
    """The row of a shape, and its metric from tables in points."""
    found = [_levels(bench, training) for training in trainings]
    table, full = ([100 * levels[level] for levels in found] for level in ("table", "full"))
    converted = bench.root(shape)
    left = converted.report["distilled"]
    folder = bench.table(converted, GENERAL, ALPHA)
    return {
        "n": shape.n,
        "layers": str(shape),
        "metric, full": mean_and_deviation(full),
        "metric, table": mean_and_deviation(table),
        "unexplained, complete": left[level_name(0, shape.n)]["cut"],
        "unexplained, uni-grams": left["unigram"]["cut"],
        "MB of the root's table": sum(file.stat().st_size for file in folder.iterdir()) / 1e6,
    }, fmean(table)


def _levels(bench: Workbench, training: Training) -> dict[str, Any]:
    bench.train(training)
    levels: dict[str, Any] = bench.test(training)["levels"]
    return levels
