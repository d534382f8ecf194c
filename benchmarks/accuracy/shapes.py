"""The paper's tables 8 and 10: accuracy by the shape of the root, with three models on each.

`ngram` has fragments of 2, 3 and 5 tokens, with the same layers below and above the cut. `split` has one to
four layers looked up, below two upper layers; its roots are the first three to six layers of the checkpoint.

    python -m benchmarks.accuracy.shapes ngram
"""

import sys
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.comparison import mean_and_deviation
from benchmarks.accuracy.data import DATASETS, GENERAL, Dataset
from benchmarks.accuracy.grid import EPOCHS, PATIENCE, SEEDS
from benchmarks.accuracy.methods import HBERT
from benchmarks.accuracy.trainings import Shape, Training
from benchmarks.accuracy.workbench import ALPHA, Workbench, conversion_settings
from benchmarks.result_cache import add_committed
from inference.hplm.fragments import level_name

QUICK_TOKENS, QUICK_EPOCHS = 100_000, 3
UPPER: Final = 2
SHAPES: Final[dict[str, Sequence[Shape]]] = {
    "ngram": tuple(Shape(n=n) for n in (2, 3, 5)),
    "split": tuple(Shape(lower, UPPER) for lower in range(1, 5)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table; kept results are reused."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("varied", choices=sorted(SHAPES), help="what differs between the roots")
    parser.add_argument("--dataset", default="NCBI-disease", choices=sorted(DATASETS))
    parser.add_argument("--tokens", type=int, help="that each conversion learns from")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="models on each root")
    parser.add_argument("--epochs", type=int, help="at most, of each training")
    add_committed(parser)
    options = parser.parse_args(argv)
    console = Console()
    tokens = options.tokens or (QUICK_TOKENS if options.quick else None)
    epochs = options.epochs or (QUICK_EPOCHS if options.quick else EPOCHS)
    bench = Workbench(
        console,
        conversion=conversion_settings(tokens),
        quick=options.quick,
        committed=options.committed,
    )
    kept = bench.kept("shapes")
    dataset = DATASETS[options.dataset]
    rows: list[harness.Row] = []
    figures: dict[str, float] = {}
    for shape in SHAPES[options.varied]:
        trainings = [_training(dataset, shape, seed, epochs) for seed in range(options.seeds)]
        found = kept.get_or_compute_unless_committed(
            {
                "n": shape.n,
                "layers": str(shape),
                "trainings": [bench.key(training) for training in trainings],
            },
            partial(_measure, bench, shape, trainings),
        )
        if found is not None:
            rows.append(found["row"])
            figures[f"metric_{shape.n}_{shape}"] = found["metric"]
    console.out(harness.markdown_table(rows), highlight=False)
    settings = {"dataset": dataset.name, "tokens": tokens, "epochs": epochs, "seeds": options.seeds}
    settings |= bench.report_kept()
    if options.json:
        harness.write_json(harness.Report(options.varied, settings, rows, figures), options.json)
    return 0


def _training(dataset: Dataset, shape: Shape, seed: int, epochs: int) -> Training:
    """With the middle learning rate of the grid, which stays the same for all shapes."""
    settings = HBERT.settings(learning_rate=HBERT.rate, seed=seed, epochs=epochs, patience=PATIENCE)
    return Training(HBERT, dataset, settings, shape)


def _measure(bench: Workbench, shape: Shape, trainings: Sequence[Training]) -> dict[str, Any]:
    """{row} of the table, and {metric} from tables in points."""
    found = [_levels(bench, training) for training in trainings]
    table, full = ([100 * levels[level] for levels in found] for level in ("table", "full"))
    converted = bench.root(shape)
    left = converted.report["mixer"]
    folder = bench.table(converted, GENERAL, ALPHA)
    row = {
        "n": shape.n,
        "layers": str(shape),
        "metric, full": mean_and_deviation(full),
        "metric, table": mean_and_deviation(table),
        "unexplained, complete": left[level_name(0, shape.n)]["cut"],
        "unexplained, uni-grams": left["unigram"]["cut"],
        "MB of the root's table": sum(file.stat().st_size for file in folder.iterdir()) / 1e6,
    }
    return {"row": row, "metric": fmean(table)}


def _levels(bench: Workbench, training: Training) -> dict[str, Any]:
    bench.train(training)
    levels: dict[str, Any] = bench.test(training)["levels"]
    return levels


if __name__ == "__main__":
    sys.exit(main())
