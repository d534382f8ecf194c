"""The paper's figure 14: the metric of models of tenants that have few rows each, by number of tenants."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from benchmarks import harness
from benchmarks.accuracy.data import Dataset, canonical
from benchmarks.accuracy.grid import Cell, Grid
from benchmarks.accuracy.tenants import Subset, subset_size, tenant_counts
from benchmarks.result_cache import bench_dir

TENANTS = (10, 100, 1_000)
"""The paper has 10,000, too: with 11 times as many rows. Here a tenant would have fewer than two rows."""
MEASURED = 2
"""Tenants of each dataset that are trained; the others differ from them by chance alone."""
METRICS = {"classification": "accuracy", "tagging": "F1"}


@dataclass
class Point:
    """The models of one method with so many tenants. wanted: how many there are to be."""

    tenants: int
    method: str
    wanted: int = 0
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Test metrics in points by task and dataset."""

    def mean(self, task: str) -> float | None:
        """Of the datasets' means; None if there is no value."""
        found = self.values.get(task, {}).values()
        return fmean(map(fmean, found)) if found else None

    @property
    def measured(self) -> int:
        """The number of models."""
        return sum(len(found) for task in self.values.values() for found in task.values())


class TenantCurves:
    """Trains some tenants of each dataset, with the learning rate that the grid chose for all of its rows."""

    def __init__(
        self,
        grid: Grid,
        cells: Sequence[Cell],
        tenants: Sequence[int] = TENANTS,
        measured: int = MEASURED,
    ) -> None:
        self._grid, self._cells = grid, cells
        self._tenants, self._measured = sorted(tenants), measured
        self._rows = {cell.dataset.name: _training_rows(cell.dataset) for cell in cells}

    def run(self) -> list[Point]:
        """Train and test what is missing, the smallest subsets first, and return all that is there."""
        methods = list(dict.fromkeys(cell.method.name for cell in self._cells))
        points = {(tenants, name): Point(tenants, name) for tenants in self._tenants for name in methods}
        for tenants in reversed(self._tenants):
            counts = tenant_counts(self._rows, tenants)
            for cell in self._cells:
                point = points[tenants, cell.method.name]
                for subset in self._subsets(self._rows[cell.dataset.name], counts[cell.dataset.name]):
                    point.wanted += 1
                    value = self._value(cell, subset)
                    if value is not None:
                        by_dataset = point.values.setdefault(cell.dataset.task, {})
                        by_dataset.setdefault(cell.dataset.name, []).append(value)
        return list(points.values())

    def _subsets(self, rows: int, tenants: int) -> list[Subset]:
        """Those of a dataset's tenants that are measured; none where a tenant has fewer than two rows."""
        size = subset_size(rows, tenants) if tenants else 0
        measured = min(tenants, self._measured) if size > 1 else 0
        return [Subset(size, tenant) for tenant in range(measured)]

    def _value(self, cell: Cell, subset: Subset) -> float | None:
        """The test metric in points; None if the model or its learning rate is missing."""
        covered = self._grid.covered(cell)
        if covered is None or covered.missing:
            return None
        training = self._grid.training(cell, covered.best_rate, subset.tenant, subset)
        if self._grid.train(training) is None or not self._grid.bench.is_testable(training):
            return None
        return 100 * float(self._grid.bench.test(training)["test"])


def rows_of(points: Sequence[Point]) -> list[harness.Row]:
    """A row for each number of tenants and method."""
    return [
        {"tenants": point.tenants, "method": point.method}
        | {metric: _text(point.mean(task)) for task, metric in METRICS.items()}
        | {"models": f"{point.measured} of {point.wanted}"}
        for point in points
    ]


def figures_of(points: Sequence[Point]) -> dict[str, float]:
    """The means by metric, method and number of tenants."""
    means = {
        f"{metric}_{point.method}_{point.tenants}": point.mean(task)
        for point in points
        for task, metric in METRICS.items()
    }
    return {name: mean for name, mean in means.items() if mean is not None}


def _text(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.1f}"


def _training_rows(dataset: Dataset) -> int:
    with canonical(dataset, bench_dir() / "data" / dataset.name).train.open(encoding="utf-8") as file:
        return sum(1 for _ in file)
