"""The table of the accuracy benchmark, and its figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from benchmarks import harness
from benchmarks.accuracy.data import Dataset
from benchmarks.accuracy.grid import Cell, Covered, Grid
from benchmarks.accuracy.methods import ADAPTER, DEDICATED, HBERT, PLOT, SHARED, UPPER
from benchmarks.accuracy.trainings import Shape

CASCADE: Final = "hBERT, cascade"
FULL: Final = "hBERT, full"
LEVELS: Final = {HBERT.name: "table", CASCADE: "cascade", FULL: "full"}
"""The rows of one model, by the level that answers; the row hBERT is the model as served from tables."""
NOT_COVERED: Final = "–"


@dataclass(frozen=True)
class Entry:
    """The test metrics of one row on one dataset, in points, by seed. covered: the trainings behind them."""

    values: list[float]
    covered: Covered

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fmean(self.values)

    def text(self, trainings: int) -> str:
        """The mean and the deviation; with a mark if some of so many trainings are missing."""
        missing = self.covered.missing
        mark = f" [{trainings - missing} of {trainings}]" if missing else ""
        return mean_and_deviation(self.values) + mark


class Comparison:
    """Reads the test results of all cells that have any. shapes: the first is the one without a mark."""

    def __init__(self, grid: Grid, cells: Sequence[Cell], shapes: Sequence[Shape]) -> None:
        self._grid, self._cells, self._shapes = grid, cells, shapes
        self._datasets = list(dict.fromkeys(cell.dataset for cell in cells))
        self._trainings = {row: grid.trainings_of(cell) for cell in cells for row, _ in self._rows_of(cell)}
        self._bytes: list[float] = []
        self._escalated: list[float] = []
        self._entries = {
            (row, cell.dataset.name): entry for cell in cells for row, entry in self._entries_of(cell)
        }

    def rows(self) -> list[harness.Row]:
        """A row for each method and level, a column for each dataset; a mean only where all are covered."""
        return [
            {"method": name}
            | {dataset.name: self._text(name, dataset) for dataset in self._datasets}
            | {"mean": self._mean(name)}
            for name in self._trainings
        ]

    def learning_rates(self) -> list[harness.Row]:
        """The chosen learning rate of each cell; those at an end of their grid carry a mark."""
        by_row: dict[str, harness.Row] = {}
        for cell in self._cells:
            row = by_row.setdefault(self._name(cell.method.name, cell), {})
            covered = self._grid.covered(cell)
            row[cell.dataset.name] = NOT_COVERED if covered is None else _rate(covered)
        names = [dataset.name for dataset in self._datasets]
        return [
            {"method": name} | {dataset: row.get(dataset, NOT_COVERED) for dataset in names}
            for name, row in by_row.items()
        ]

    def figures(self) -> dict[str, float]:
        """Points lost, means over the datasets on which both sides have as many learning rates and seeds."""
        found = {
            "drop_conversion": self._drop(FULL, ADAPTER.name),
            "drop_table": self._drop(HBERT.name, FULL),
            "drop_cascade": self._drop(CASCADE, FULL),
            "drop_pet": self._drop(ADAPTER.name, DEDICATED.name),
            "drop_dedicated": self._drop(HBERT.name, DEDICATED.name),
            "drop_upper_all": self._drop(UPPER.name, DEDICATED.name),
            "drop_plot": self._drop(PLOT.name, DEDICATED.name),
            "drop_shared": self._drop(SHARED.name, DEDICATED.name),
        }
        for shape in self._shapes[1:]:
            table, full = (f"{row} ({shape})" for row in (HBERT.name, FULL))
            found[f"drop_table_{shape}"] = self._drop(table, full)
            found[f"drop_dedicated_{shape}"] = self._drop(table, DEDICATED.name)
        figures = {name: fmean(drops.values()) for name, drops in found.items() if drops}
        for dataset, drop in found["drop_dedicated"].items():
            figures[f"drop_dedicated_{dataset}"] = drop
        figures["drop_dedicated_datasets"] = len(found["drop_dedicated"])
        figures["complete_cells"] = fmean(self._grid.is_complete(cell) for cell in self._cells)
        if self._escalated:
            figures["escalated_share"] = fmean(self._escalated)
            figures["hplm_bytes_share"] = max(self._bytes)
        return figures

    def _rows_of(self, cell: Cell) -> Iterator[tuple[str, str | None]]:
        """The rows of a cell's models, and the level that answers."""
        levels = LEVELS if cell.method is HBERT else {cell.method.name: None}
        for row, level in levels.items():
            yield self._name(row, cell), level

    def _entries_of(self, cell: Cell) -> Iterator[tuple[str, Entry]]:
        covered = self._grid.covered(cell)
        if covered is None:
            return
        results = self._grid.test(cell)
        for row, level in self._rows_of(cell):
            values = [100 * (one["test"] if level is None else one["levels"][level]) for one in results]
            yield row, Entry(values, covered)
        if cell.method is HBERT and cell.shape == self._shapes[0]:
            self._escalated += [one["levels"]["escalated"] for one in results]
            self._bytes.append(self._bytes_share(covered))

    def _bytes_share(self, covered: Covered) -> float:
        """The bytes of a model over those of the checkpoint's weights."""
        results = [self._grid.bench.train(one) for one in covered.chosen]
        return max(float(one["bytes"]) / float(one["root_bytes"]) for one in results)

    def _name(self, row: str, cell: Cell) -> str:
        """With the shape, if it is not the first. A dedicated model is not cut."""
        plain = cell.method is DEDICATED or cell.shape == self._shapes[0]
        return row if plain else f"{row} ({cell.shape})"

    def _text(self, row: str, dataset: Dataset) -> str:
        entry = self._entries.get((row, dataset.name))
        return NOT_COVERED if entry is None else entry.text(self._trainings[row])

    def _mean(self, row: str) -> float | str:
        found = [self._entries.get((row, dataset.name)) for dataset in self._datasets]
        means = [entry.mean for entry in found if entry is not None]
        return fmean(means) if len(means) == len(found) else NOT_COVERED

    def _drop(self, worse: str, better: str) -> dict[str, float]:
        """By dataset, how many points one row is below the other."""
        pairs = {
            dataset.name: [self._entries.get((row, dataset.name)) for row in (better, worse)]
            for dataset in self._datasets
        }
        return {
            name: high.mean - low.mean
            for name, (high, low) in pairs.items()
            if high is not None and low is not None and high.covered.extent == low.covered.extent
        }


def mean_and_deviation(values: Sequence[float]) -> str:
    """The mean of at least one value, and the deviation of several."""
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def _rate(covered: Covered) -> str:
    rates, best = covered.cell.method.rates, covered.best_rate
    return f"{best:g}" + (" (end)" if best in (min(rates), max(rates)) else "")
