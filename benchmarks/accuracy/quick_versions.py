"""What a trained version gains over the quick one of the same rows, and what both cost.

Each dataset has up to 1,000 rows of each split. Both versions answer the same test rows: the
quick one from the tables, the trained one by the cascade.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import DATASETS, Dataset
from benchmarks.accuracy.methods import HBERT, Inputs
from benchmarks.accuracy.trainings import Training
from benchmarks.accuracy.workbench import Workbench
from workers.training.evaluate import evaluate
from workers.training.fine_tune import fine_tune
from workers.training.progress import Reporter
from workers.training.quick import QuickSettings, quick_fit
from workers.training.search import FineTuneSettings

DEFAULT = ("chemprot", "sst2", "NCBI-disease")
ROWS, QUICK_ROWS = 1_000, 100
LINES, QUICK_LINES = 12_000, 1_000
TOKENS = 100_000
"""That the root and its domain learn from at each step."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train both versions on each dataset, and print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--dataset", action="append", choices=sorted(DATASETS), help="only this one")
    parser.add_argument("--seed", type=int, default=0, help="of the trained version")
    options = parser.parse_args(argv)
    rows, lines = (QUICK_ROWS, QUICK_LINES) if options.quick else (ROWS, LINES)
    bench = Workbench(Console(), tokens=TOKENS, rows=rows, lines=lines, quick=options.quick)
    settings = HBERT.settings(options.seed)
    found = []
    for name in options.dataset or DEFAULT:
        training = Training(HBERT, DATASETS[name], settings)
        found.append(measure(DATASETS[name], bench.inputs(training), settings, bench.reporter))
    figures = {
        "quick_gap_points": fmean(row["trained"] - row["quick"] for row in found),
        "quick_cpu_s": fmean(row["quick CPU s"] for row in found),
        "trained_cpu_s": fmean(row["trained CPU s"] for row in found),
    }
    report = harness.Report("quick versions", {"rows": rows, "seed": options.seed}, found, figures)
    return harness.publish(report, options)


def measure(dataset: Dataset, inputs: Inputs, settings: FineTuneSettings, reporter: Reporter) -> harness.Row:
    """The row of a dataset: metrics in points, and processor seconds of both fits, each with the load of the
    root, and the quick one with its evaluation."""
    of_both: dict[str, Any] = {
        "root": inputs.root,
        "plots": inputs.plots,
        "lower": inputs.lower,
        "task": inputs.task,
        "reporter": reporter,
    }
    with tempfile.TemporaryDirectory() as folder:
        quick, trained, answers = (Path(folder) / name for name in ("quick", "trained", "answers"))

        def fit() -> object:
            return quick_fit(
                **of_both, dataset=inputs.files, out=quick, answers=answers, settings=QuickSettings()
            )

        def train() -> object:
            return fine_tune(**of_both, dataset=inputs.files, out=trained, settings=settings)

        quick_s, trained_s = _processor_seconds(fit), _processor_seconds(train)
        found = {
            out.name: evaluate(
                **of_both,
                hplm=out,
                dataset_file=inputs.files.test,
                train_file=inputs.files.train,
                scratch=out.parent,
            )
            for out in (quick, trained)
        }
    return {
        "dataset": dataset.name,
        "metric": dataset.metric,
        "majority": round(100 * found["quick"]["majority_baseline"], 1),
        "quick": round(100 * found["quick"]["value"], 1),
        "trained": round(100 * found["trained"]["value"], 1),
        "quick CPU s": round(quick_s, 1),
        "trained CPU s": round(trained_s, 1),
    }


def _processor_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    sys.exit(main())
