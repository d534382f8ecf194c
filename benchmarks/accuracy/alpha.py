"""The paper's table 5: quality and size of tables by coverage.

One model per dataset is trained on looked-up and computed lower halves, then read through tables of falling
coverage; bytes and entries are those of all tables of its branch.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import DATASETS, Dataset, canonical
from benchmarks.accuracy.workbench import Converted, Workbench
from benchmarks.result_cache import ResultCache, bench_dir, cache_folder
from inference.cascade.dispatcher import AnswerPolicy
from inference.hplm.artifact_files import read_artifact_json
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.fine_tune import fine_tune
from workers.training.search import FineTuneSettings

ALPHAS = (100.0, 50.0, 30.0, 0.0)
EPOCHS, QUICK_EPOCHS = 5, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--dataset", default="NCBI-disease", choices=sorted(DATASETS))
    parser.add_argument("--vectors", default="float16", choices=("float16", "int8"))
    options = parser.parse_args(argv)
    console = Console()
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    report = measure(DATASETS[options.dataset], options.vectors, epochs, console)
    console.out(harness.markdown_table(report.rows), highlight=False)
    if options.json:
        harness.write_json(report, options.json)
    return 0


def measure(dataset: Dataset, vectors: str, epochs: int, console: Console) -> harness.Report:
    """The model, then every coverage."""
    bench, runs = Workbench(console), ResultCache("alpha", console)
    converted = bench.convert()
    files = canonical(dataset, bench_dir() / "data" / dataset.name)
    settings = FineTuneSettings(epochs=epochs)
    widest = tables(bench, converted, dataset, ALPHAS[0], "float16")
    key = {"dataset": dataset.name, "settings": asdict(settings), "root": converted.key}
    hplm = cache_folder("hplms", {"alpha": key})
    if not hplm.is_dir():
        fine_tune(
            root=converted.root,
            plots=widest,
            dataset=files,
            task=dataset.task,
            out=hplm,
            settings=settings,
            reporter=bench.reporter,
            lower=converted.lower,
        )
    rows, figures = [], {}
    for alpha in ALPHAS:
        plots = tables(bench, converted, dataset, alpha, vectors)
        read = partial(_read, converted, plots, hplm, files.test, dataset, bench)
        found = runs.get_or_compute(key | {"alpha": alpha, "vectors": vectors}, read)
        rows.append(_row(alpha, plots, found))
        figures[f"metric_{alpha:g}"] = 100 * found["value"]
    return harness.Report(
        "alpha", {"dataset": dataset.name, "vectors": vectors, "epochs": epochs}, rows, figures
    )


def tables(
    bench: Workbench, converted: Converted, dataset: Dataset, alpha: float, vectors: str
) -> list[Path]:
    """The branch of the dataset's domain: its own table of that coverage above the root's."""
    found = [bench.table(converted, "general", alpha, vectors=vectors)]
    if dataset.domain != "general":
        found.insert(0, bench.table(converted, dataset.domain, alpha, all_unigrams=False, vectors=vectors))
    return found


def _read(
    converted: Converted,
    plots: list[Path],
    hplm: Path,
    test: Path,
    dataset: Dataset,
    bench: Workbench,
) -> dict[str, Any]:
    found = evaluate(
        root=converted.root,
        plots=plots,
        hplm=hplm,
        dataset_file=test,
        task=dataset.task,
        reporter=bench.reporter,
        lower=converted.lower,
        settings=EvaluateSettings(policy=AnswerPolicy.TABLE),
    )
    return {"value": found["value"], "hits": found["plot_hits"]}


def _row(alpha: float, plots: list[Path], found: dict[str, Any]) -> harness.Row:
    about = [read_artifact_json(plot / "plot.json") for plot in plots]
    size = sum(file.stat().st_size for plot in plots for file in plot.iterdir())
    hits = {name: 100 * share for name, share in found["hits"].items()}
    return {
        "α %": alpha,
        "metric": 100 * found["value"],
        "entries": sum(one["rows"] for one in about),
        "MB": size / 1e6,
        "tri-gram %": hits["trigram"],
        "bi-gram %": hits["bigram"],
        "uni-gram %": hits["unigram"],
    }


if __name__ == "__main__":
    sys.exit(main())
