"""The paper's table 5: quality and space by the coverage of the domain's table, above the root's own.

The models of the accuracy benchmark are read through domain tables of falling coverage; with a coverage of 0
only the root's table is left, which stays as it is. Then the space of ten domains' tables.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy import e2e_dataset
from benchmarks.accuracy.__main__ import add_options, schedule_of, settings_of
from benchmarks.accuracy.comparison import mean_and_deviation
from benchmarks.accuracy.data import BIOMEDICAL, DATASETS, Dataset, corpus, texts_of
from benchmarks.accuracy.methods import HBERT
from benchmarks.accuracy.schedule import Schedule
from benchmarks.accuracy.trained_branches import ALPHA
from benchmarks.accuracy.workbench import Workbench
from benchmarks.result_cache import bench_dir
from benchmarks.serving.real_texts import docstrings
from inference.hplm.artifact_files import read_artifact_json
from workers.training.plots import PlotSettings

ALPHAS = (100.0, 50.0, 30.0, 0.0)
WITH_DOMAIN = sorted(name for name, dataset in DATASETS.items() if dataset.has_domain)
OF_DATASETS = ("chemprot", "sci-cite", "citation_intent", "NCBI-disease", "sst2", "mrpc", "sick-nli")
"""Whose training texts are a domain's corpus. sick-sts has those of sick-nli."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the tables."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--dataset", default="NCBI-disease", choices=WITH_DOMAIN)
    parser.add_argument("--vectors", default="float16", choices=("float16", "int8"))
    add_options(parser)
    options = parser.parse_args(argv)
    console = Console()
    schedule = schedule_of(options, console)
    dataset = DATASETS[options.dataset]
    rows, figures = measure(schedule, dataset, options.vectors)
    console.out(harness.markdown_table(rows), highlight=False)
    corpora = domain_corpora()
    domains = measure_domains(schedule.bench, options.vectors, corpora)
    console.out("\n" + harness.markdown_table(domains), highlight=False)
    if len(domains) == len(corpora):
        figures["mb_of_ten_domains"] = sum(float(row["MB"]) for row in domains)
    console.print({name: round(value, 3) for name, value in figures.items()})
    settings = {"dataset": dataset.name, "vectors": options.vectors, "domains": domains}
    settings |= settings_of(schedule, options)
    if options.json:
        harness.write_json(harness.Report("alpha", settings, rows, figures), options.json)
    return 0


def measure(
    schedule: Schedule, dataset: Dataset, vectors: str, alphas: Sequence[float] = ALPHAS
) -> tuple[list[harness.Row], dict[str, float]]:
    """A row for each coverage of the domain's table, and the metric from tables in points."""
    bench, branches = schedule.bench, schedule.bench.branches
    kept = bench.kept("alpha")
    trainings = [schedule.training(HBERT, dataset, seed) for seed in schedule.seeds]
    rows: list[harness.Row] = []
    figures: dict[str, float] = {}

    def measured(alpha: float) -> dict[str, Any]:
        root = branches.root(branches.shape)
        tables = branches.tables(root, dataset.domain, alpha, **_settings(vectors))
        found = [bench.test(training, tables) for training in trainings]
        metric = 100 * fmean(one["levels"]["table"] for one in found)
        return {"row": _row(alpha, tables[:-1], found), "metric": metric}

    keys = [bench.key(training) for training in trainings]
    for alpha in alphas:
        key = {"alpha": alpha, "vectors": vectors, "trainings": keys}
        found = kept.get_or_compute_unless_committed(key, partial(measured, alpha))
        if found is not None:
            rows.append(found["row"])
            figures[f"metric_{alpha:g}"] = found["metric"]
    return rows, figures


def measure_domains(bench: Workbench, vectors: str, corpora: Mapping[str, Path]) -> list[harness.Row]:
    """A row for each domain, by the file of its corpus: what its table above the root's takes."""
    branches, kept = bench.branches, bench.kept("domain_tables")

    def measured(name: str, file: Path) -> dict[str, Any]:
        root = branches.root(branches.shape)
        return _space([branches.table(root, name, ALPHA, corpus_file=file, **_settings(vectors))])

    rows = []
    for name, file in corpora.items():
        key = {"domain": name, "vectors": vectors, "root": branches.root_key(branches.shape)}
        found = kept.get_or_compute_unless_committed(key, partial(measured, name, file))
        if found is not None:
            rows.append({"domain": name, "entries": found["entries"], "MB": found["MB"]})
    return rows


def domain_corpora() -> dict[str, Path]:
    """The corpora of ten domains, one text a line: the biomedical one, the training texts of eight datasets,
    and docstrings."""
    folder = bench_dir() / "data" / "domains"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: texts_of(DATASETS[name], "train") for name in OF_DATASETS}
    restaurants = (group[0]["completion"] for group in e2e_dataset.meaning_representations("train"))
    texts |= {e2e_dataset.NAME: restaurants, "docstrings": docstrings()}
    files = {name: folder / f"{name}.txt" for name in texts}
    for name, file in files.items():
        if not file.is_file():
            partial = file.with_suffix(".partial")
            partial.write_text("\n".join(" ".join(text.split()) for text in texts[name]), encoding="utf-8")
            partial.replace(file)
    return {BIOMEDICAL: corpus(BIOMEDICAL), **files}


def _settings(vectors: str) -> dict[str, Any]:
    """Of tables. Without any where they are the usual ones, which other benchmarks share."""
    return {} if vectors == PlotSettings().vectors else {"vectors": vectors}


def _row(alpha: float, domain: Sequence[Path], found: Sequence[dict[str, Any]]) -> harness.Row:
    """Of test results by seed. domain: the domain's table, if there is one."""
    hits = {name: 100 * share for name, share in found[0]["hits"].items()}
    metrics = {
        f"metric, {level}": mean_and_deviation([100 * one["levels"][level] for one in found])
        for level in ("table", "cascade")
    }
    return {
        "α %": alpha,
        **metrics,
        **_space(domain),
        "tri-gram %": hits["trigram"],
        "bi-gram %": hits["bigram"],
        "uni-gram %": hits["unigram"],
    }


def _space(tables: Sequence[Path]) -> harness.Row:
    return {
        "entries": sum(read_artifact_json(table / "plot.json")["rows"] for table in tables),
        "MB": sum(file.stat().st_size for table in tables for file in table.iterdir()) / 1e6,
    }


if __name__ == "__main__":
    sys.exit(main())
