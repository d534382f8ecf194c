"""Shared by the benchmarks of n-grams and of the split: one root per shape, and one model on each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.data import DATASETS, canonical
from benchmarks.accuracy.workbench import Converted, Workbench
from benchmarks.result_cache import ResultCache, bench_dir, cache_folder
from inference.hplm.fragments import level_name
from workers.training.fine_tune import fine_tune
from workers.training.search import FineTuneSettings

ALPHA = 50.0
QUICK_TOKENS, QUICK_EPOCHS, EPOCHS = 100_000, 3, 5


@dataclass(frozen=True, slots=True)
class Shape:
    """A root's fragments and how many of its layers are looked up."""

    n: int = 3
    lower: int = 3


def run(name: str, description: str, shapes: Sequence[Shape], argv: Sequence[str] | None) -> int:
    """Run a benchmark over shapes and print its table; cached results are reused."""
    parser = harness.arguments(description)
    parser.add_argument("--dataset", default="NCBI-disease", choices=sorted(DATASETS))
    parser.add_argument("--tokens", type=int, help="tokens of each conversion's distillation")
    options = parser.parse_args(argv)
    console = Console()
    tokens = options.tokens or (QUICK_TOKENS if options.quick else None)
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    bench, runs = Workbench(console), ResultCache(name, console)
    rows = [_row(shape, options.dataset, tokens, epochs, bench, runs) for shape in shapes]
    console.out(harness.markdown_table(rows), highlight=False)
    figures = {
        f"metric_{shape.n}_{shape.lower}": row["metric"] for shape, row in zip(shapes, rows, strict=True)
    }
    if options.json:
        settings = {"dataset": options.dataset, "tokens": tokens, "epochs": epochs}
        harness.write_json(harness.Report(name, settings, rows, figures), options.json)
    return 0


def _row(
    shape: Shape, dataset_name: str, tokens: int | None, epochs: int, bench: Workbench, runs: ResultCache
) -> harness.Row:
    budget = {} if tokens is None else {"distil_tokens": tokens}
    converted = bench.convert(n=shape.n, lower_layers=shape.lower, **budget)
    settings = FineTuneSettings(epochs=epochs)
    key = {"dataset": dataset_name, "settings": asdict(settings), "root": converted.key}
    found = runs.get_or_compute(key, lambda: _tune(dataset_name, settings, converted, key, bench))
    left = converted.report["distilled"]
    return {
        "n": shape.n,
        "lower layers": shape.lower,
        "metric, full": 100 * found["full"],
        "metric": 100 * found["table"],
        "unexplained, complete": left[level_name(0, shape.n)]["cut"],
        "unexplained, uni-grams": left["unigram"]["cut"],
        "MB of the table": found["megabytes"],
    }


def _tune(
    dataset_name: str, settings: FineTuneSettings, converted: Converted, key: dict[str, Any], bench: Workbench
) -> dict[str, Any]:
    dataset = DATASETS[dataset_name]
    files = canonical(dataset, bench_dir() / "data" / dataset.name)
    table = bench.table(converted, "general", ALPHA)
    out = cache_folder("hplms", key)
    report = fine_tune(
        root=converted.root,
        plots=[table],
        dataset=files,
        task=dataset.task,
        out=out,
        settings=settings,
        reporter=bench.reporter,
        lower=converted.lower,
    )
    size = sum(file.stat().st_size for file in table.iterdir())
    return {
        "full": report["test_levels"]["full"],
        "table": report["test_levels"]["table"],
        "megabytes": size / 1e6,
    }
