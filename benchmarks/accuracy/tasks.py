"""The paper's table 3 on real data: fine-tuning every parameter beside the model and its parts.

Every method is trained with the same loop and the same search on the dev split; figures are of the test
split, in points. Results are cached: stop it and start it again, or take one dataset at a time.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import fmean, stdev
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import DATASETS, QUICK, Dataset, canonical
from benchmarks.accuracy.methods import (
    ADAPTER,
    DEDICATED,
    HBERT,
    METHODS,
    PLOT,
    SHARED,
    UPPER,
    Inputs,
    Method,
    train_full,
)
from benchmarks.accuracy.workbench import Converted, Workbench
from benchmarks.result_cache import ResultCache, bench_dir, cache_folder
from inference.hplm.artifact_files import read_artifact_json
from inference.hplm.root import LOWER_FILE, UPPER_FILE
from inference.text.tokenization import ROOT_FILE
from workers.training.fine_tune import fine_tune
from workers.training.search import FineTuneSettings

ALPHA = 50.0
FULL = "hBERT, full"
CASCADE = "hBERT, cascade"
LEVELS = {HBERT.name: "table", CASCADE: "cascade", FULL: "full"}
"""The same model at each level; the row hBERT is the model as served from tables."""
QUICK_EPOCHS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table; 0 when every run ended well."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--dataset", action="append", choices=sorted(DATASETS), help="only this one")
    parser.add_argument("--method", action="append", choices=sorted(METHODS), help="only this one")
    parser.add_argument("--seeds", type=int, help="seeds of each dataset, if not the usual")
    parser.add_argument("--trials", type=int, default=2, help="learning rates tried for each method")
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args(argv)
    console = Console()
    report = Accuracy(options, console).run()
    console.print(
        "\nTest metric in points (accuracy; NCBI-disease: entity F1), mean ± deviation over seeds\n"
    )
    console.out(harness.markdown_table(report.rows), highlight=False)
    console.print({name: round(value, 3) for name, value in report.figures.items()})
    if options.json:
        harness.write_json(report, options.json)
    return 0


class Accuracy:
    """The runs of the benchmark and their table."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self._options = options
        self._bench = Workbench(console)
        self._runs = ResultCache("accuracy", console)
        quick = options.quick
        names = options.dataset or (QUICK if quick else tuple(DATASETS))
        self._datasets = [DATASETS[name] for name in names]
        self._methods = [METHODS[name] for name in options.method or METHODS]
        self._trials = 1 if quick else options.trials
        self._epochs = QUICK_EPOCHS if quick else options.epochs
        seeds = 1 if quick else options.seeds
        self._seeds = {dataset.name: seeds or dataset.seeds for dataset in self._datasets}
        self._found: dict[tuple[str, str], list[float]] = {}
        self._notes: dict[str, list[float]] = {"bytes": [], "escalated": []}

    def run(self) -> harness.Report:
        converted = self._bench.convert()
        for dataset in self._datasets:
            for seed in range(self._seeds[dataset.name]):
                for method in self._methods:
                    self._measure(converted, dataset, method, seed)
        settings = {
            "seeds": self._seeds,
            "trials": self._trials,
            "epochs": self._epochs,
            "conversion": _conversion_figures(converted),
        }
        return harness.Report("accuracy", settings, self._rows(), self._figures(converted))

    def _measure(self, converted: Converted, dataset: Dataset, method: Method, seed: int) -> None:
        inputs = self._inputs(converted, dataset)
        settings = FineTuneSettings(
            seed=seed,
            learning_rate=method.rate,
            trials=self._trials,
            epochs=self._epochs,
            full_context_share=method.full_context_share,
            lower_mode=method.lower_mode,
        )
        if method.trained == "head":
            settings = replace(settings, lora=0, biases=False, norms=False)
        key = {
            "dataset": dataset.name,
            "method": asdict(method),
            "settings": asdict(settings),
            # With full context in the lower layers a run does not depend on the conversion.
            "root": "as published" if method.lower_mode == "full" else converted.key,
        }
        if method.trained in ("all", "upper"):
            result = self._runs.get_or_compute(
                key, lambda: train_full(method, inputs, settings, self._bench.reporter)
            )
        else:
            result = self._runs.get_or_compute(key, lambda: self._tune(inputs, settings, method, key))
        if method is not HBERT:
            self._note(dataset, method.name, result["test"])
        else:
            self._notes["bytes"].append(result["bytes"])
            for name, level in LEVELS.items():
                self._note(dataset, name, result["levels"][level])
            self._notes["escalated"].append(result["levels"]["escalated"])

    def _inputs(self, converted: Converted, dataset: Dataset) -> Inputs:
        tables = [self._bench.table(converted, "general", ALPHA)]
        if dataset.domain != "general":
            tables.insert(0, self._bench.table(converted, dataset.domain, ALPHA, all_unigrams=False))
        files = canonical(dataset, bench_dir() / "data" / dataset.name)
        return Inputs(converted.root, converted.lower, tables, files, dataset.task)

    def _tune(
        self, inputs: Inputs, settings: FineTuneSettings, method: Method, key: dict[str, Any]
    ) -> dict[str, Any]:
        out = cache_folder("hplms", key)
        report = fine_tune(
            root=inputs.root,
            plots=inputs.plots,
            dataset=inputs.files,
            task=inputs.task,
            out=out,
            settings=settings,
            reporter=self._bench.reporter,
            lower=inputs.lower,
        )
        return {
            "dev": report["dev"]["value"],
            "test": report["test"]["value"],
            "levels": report["test_levels"],
            "learning_rate": report["learning_rate"],
            "trials": report["trials"],
            "bytes": report["bytes"],
        }

    def _note(self, dataset: Dataset, row: str, value: float) -> None:
        self._found.setdefault((row, dataset.name), []).append(100 * value)

    def _rows(self) -> list[harness.Row]:
        names = list(dict.fromkeys(row for row, _ in self._found))
        rows = []
        for name in names:
            values = {d.name: self._found.get((name, d.name), []) for d in self._datasets}
            means = [fmean(found) for found in values.values() if found]
            rows.append(
                {"method": name}
                | {dataset: _spread(found) for dataset, found in values.items()}
                | {"mean": fmean(means)}
            )
        return rows

    def _figures(self, converted: Converted) -> dict[str, float]:
        def drop(worse: str, better: str) -> float | None:
            pairs = [
                (fmean(self._found[better, d.name]), fmean(self._found[worse, d.name]))
                for d in self._datasets
                if (better, d.name) in self._found and (worse, d.name) in self._found
            ]
            return fmean(high - low for high, low in pairs) if pairs else None

        wanted = {
            "drop_conversion": drop(FULL, ADAPTER.name),
            "drop_table": drop(HBERT.name, FULL),
            "drop_cascade": drop(CASCADE, FULL),
            "drop_dedicated": drop(HBERT.name, DEDICATED.name),
            "drop_upper_all": drop(UPPER.name, DEDICATED.name),
            "drop_plot": drop(PLOT.name, DEDICATED.name),
            "drop_shared": drop(SHARED.name, DEDICATED.name),
        }
        figures = {name: value for name, value in wanted.items() if value is not None}
        if self._notes["bytes"]:
            figures["hplm_bytes_share"] = max(self._notes["bytes"]) / _root_bytes(converted)
            figures["escalated_share"] = fmean(self._notes["escalated"])
        return figures


def _spread(values: list[float]) -> str:
    if not values:
        return "–"
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def _root_bytes(converted: Converted) -> int:
    """Of the checkpoint's weights as they were published."""
    return sum((converted.root / name).stat().st_size for name in (LOWER_FILE, UPPER_FILE))


def _conversion_figures(converted: Converted) -> dict[str, Any]:
    kept = ("unconverted", "closed_form", "distilled", "seconds", "cpu_seconds")
    report = read_artifact_json(converted.root / ROOT_FILE)["report"] | converted.report
    return {name: report[name] for name in kept if name in report}


if __name__ == "__main__":
    sys.exit(main())
