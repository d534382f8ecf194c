"""The grid of each method on each dataset, and the order in which it is trained within a budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.accuracy.data import Dataset
from benchmarks.accuracy.methods import ADAPTER, DEDICATED, HBERT, Method
from benchmarks.accuracy.tenants import Subset
from benchmarks.accuracy.trainings import Shape, Training
from benchmarks.accuracy.workbench import Workbench

EPOCHS: Final = 15
PATIENCE: Final = 4
"""Epochs without a better dev metric after which a training stops."""
SEEDS: Final = 3
FIRST_SEED: Final = 0
MAIN: Final = (DEDICATED, HBERT, ADAPTER)


@dataclass(frozen=True, slots=True)
class Cell:
    """A method on a dataset, with a root of this shape."""

    method: Method
    dataset: Dataset
    shape: Shape


@dataclass(frozen=True)
class Covered:
    """The finished trainings of a cell: the dev metric of the first seed by learning rate, and the trainings
    of all seeds with the best rate. missing: the number of those that are not finished."""

    cell: Cell
    rates: dict[float, float]
    chosen: list[Training]
    missing: int

    @property
    def best_rate(self) -> float:
        """The learning rate with the highest dev metric; of equal ones the first that was tried."""
        return max(self.rates, key=lambda rate: self.rates[rate])

    @property
    def extent(self) -> tuple[int, int]:
        """The number of learning rates and of seeds."""
        return len(self.rates), len(self.chosen)


class Grid:
    """Trains cells: each learning rate with the first seed, then all seeds with the best rate on dev.

    epochs: the most of a training. patience: see `PATIENCE`. may_train: asked before each training that is
    not cached; if it says no, the training is left out.
    """

    def __init__(
        self,
        bench: Workbench,
        *,
        epochs: int = EPOCHS,
        patience: int = PATIENCE,
        seeds: int = SEEDS,
        may_train: Callable[[], bool] = lambda: True,
    ) -> None:
        self.bench = bench
        self._epochs, self._patience, self._seeds = epochs, patience, seeds
        self._may_train = may_train

    def run(self, cells: Sequence[Cell]) -> None:
        """Train what is missing of these cells: the middle rate of all, then the other rates of all, then the
        other seeds. What is there so far can be compared after each step. Complete cells are tested."""
        for cell in cells:
            self.train(self.training(cell, cell.method.rates[0], FIRST_SEED))
        for cell in cells:
            for rate in cell.method.rates[1:]:
                self.train(self.training(cell, rate, FIRST_SEED))
        for cell in cells:
            covered = self.covered(cell)
            if covered is None or len(covered.rates) < len(cell.method.rates):
                continue
            for seed in range(1, self._seeds):
                self.train(self.training(cell, covered.best_rate, seed))
            if self.is_complete(cell):
                self.test(cell)

    def covered(self, cell: Cell) -> Covered | None:
        """What is trained of a cell; None if nothing is."""
        tried = {rate: self.training(cell, rate, FIRST_SEED) for rate in cell.method.rates}
        found = {rate: self.bench.find(training) for rate, training in tried.items()}
        rates = {rate: float(result["dev"]) for rate, result in found.items() if result is not None}
        if not rates:
            return None
        best = Covered(cell, rates, [], 0).best_rate
        trainings = [self.training(cell, best, seed) for seed in range(self._seeds)]
        chosen = [one for one in trainings if self.bench.is_testable(one)]
        missing = len(tried) - len(rates) + self._seeds - len(chosen)
        return Covered(cell, rates, chosen, missing)

    def is_complete(self, cell: Cell) -> bool:
        """Whether no training of the cell is missing."""
        covered = self.covered(cell)
        return covered is not None and not covered.missing

    def test(self, cell: Cell) -> list[dict[str, Any]]:
        """The test results of the trainings with the best rate, by seed; empty if there are none."""
        covered = self.covered(cell)
        return [] if covered is None else [self.bench.test(training) for training in covered.chosen]

    def trainings_of(self, cell: Cell) -> int:
        """The number of trainings of a complete cell."""
        return len(cell.method.rates) + self._seeds - 1

    def training(self, cell: Cell, rate: float, seed: int, subset: Subset | None = None) -> Training:
        """The training of a cell with one learning rate and seed."""
        settings = cell.method.settings(
            learning_rate=rate, seed=seed, epochs=self._epochs, patience=self._patience
        )
        return Training(cell.method, cell.dataset, settings, cell.shape, subset)

    def train(self, training: Training) -> dict[str, Any] | None:
        """The result of a training; None if it is not cached and must not be run."""
        found = self.bench.find(training)
        if found is None and self._may_train():
            found = self.bench.train(training)
        return found
