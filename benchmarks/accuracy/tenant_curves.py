"""The paper's figure 14: the metric of models of tenants that have few rows each, by number of tenants."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from benchmarks import harness
from benchmarks.accuracy.comparison import MISSING
from benchmarks.accuracy.data import Dataset, canonical
from benchmarks.accuracy.methods import DEDICATED, HBERT, Method
from benchmarks.accuracy.schedule import Schedule
from benchmarks.accuracy.tenants import Subset, subset_size, tenant_counts
from benchmarks.result_cache import bench_dir

TENANTS: Final = (10, 100, 1_000)
"""The paper has 10,000, too: with 11 times as many rows. Here a tenant would have fewer than two rows."""
MEASURED: Final = 2
"""Tenants of each dataset that are trained; the others differ from them by chance alone."""
METRICS: Final = {"classification": "accuracy", "tagging": "F1"}


def rows(schedule: Schedule, datasets: Sequence[Dataset]) -> list[harness.Row]:
    """Train and test what is missing, the smallest subsets first; then a row for each number of tenants and
    method: the means of the datasets' means, in points."""
    sizes = {dataset.name: _training_rows(dataset) for dataset in datasets}
    found = [
        _row(schedule, datasets, sizes, tenants, method)
        for tenants in reversed(TENANTS)
        for method in (HBERT, DEDICATED)
    ]
    return found[::-1]


def _row(
    schedule: Schedule, datasets: Sequence[Dataset], sizes: Mapping[str, int], tenants: int, method: Method
) -> harness.Row:
    counts = tenant_counts(sizes, tenants)
    wanted = {one: _subsets(sizes[one.name], counts[one.name]) for one in datasets}
    values = {one: _metrics(schedule, method, one, subsets) for one, subsets in wanted.items()}
    measured, asked = (sum(map(len, lists.values())) for lists in (values, wanted))
    return {
        "tenants": tenants,
        "method": method.name,
        **{metric: _mean(values, task) for task, metric in METRICS.items()},
        "models": f"{measured} of {asked}",
    }


def _subsets(rows: int, tenants: int) -> list[Subset]:
    """Those of a dataset's tenants that are measured; none where a tenant has fewer than two rows."""
    size = subset_size(rows, tenants) if tenants else 0
    measured = min(tenants, MEASURED) if size > 1 else 0
    return [Subset(size, tenant) for tenant in range(measured)]


def _metrics(schedule: Schedule, method: Method, dataset: Dataset, subsets: Sequence[Subset]) -> list[float]:
    results = [schedule.result(method, dataset, one.tenant, subset=one) for one in subsets]
    return [100 * float(one["test"]) for one in results if one is not None]


def _mean(values: Mapping[Dataset, Sequence[float]], task: str) -> float | str:
    means = [fmean(found) for dataset, found in values.items() if dataset.task == task and found]
    return fmean(means) if means else MISSING


def _training_rows(dataset: Dataset) -> int:
    with canonical(dataset, bench_dir() / "data" / dataset.name).train.open(encoding="utf-8") as file:
        return sum(1 for _ in file)
