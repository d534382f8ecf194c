"""Trains and tests what a benchmark asks for, in its order, within a budget of processor time."""

from typing import Any, Final

from benchmarks.accuracy.data import Dataset
from benchmarks.accuracy.methods import Method
from benchmarks.accuracy.tenants import Subset
from benchmarks.accuracy.trainings import Shape, Training
from benchmarks.accuracy.workbench import Workbench

SEEDS: Final = 3
CORE_HOURS: Final = 24.0
SECONDS_PER_HOUR: Final = 3600


class Schedule:
    """Results of one training each. What is kept is not computed again.

    seeds: of each method on each dataset. epochs: if not the default of fine-tuning. core_hours: a training
    starts only while everything that was asked for has cost less.
    """

    def __init__(
        self,
        bench: Workbench,
        *,
        seeds: int = SEEDS,
        epochs: int | None = None,
        core_hours: float = CORE_HOURS,
    ) -> None:
        self.bench, self.seeds = bench, range(seeds)
        self._epochs, self._budget = epochs, core_hours * SECONDS_PER_HOUR

    def training(
        self,
        method: Method,
        dataset: Dataset,
        seed: int = 0,
        *,
        shape: Shape | None = None,
        subset: Subset | None = None,
        on_root: bool = False,
    ) -> Training:
        """One training with these settings; see `Training`."""
        settings = method.settings(seed, self._epochs)
        return Training(method, dataset, settings, shape or self.bench.branches.shape, subset, on_root)

    def result(
        self, method: Method, dataset: Dataset, seed: int = 0, **options: Any
    ) -> dict[str, Any] | None:
        """The test result of one training, trained and tested if it is not kept; None beyond the budget.

        options: of `training`.
        """
        training = self.training(method, dataset, seed, **options)
        if self.bench.committed or (self.bench.find(training) is None and not self._may_train()):
            return self.bench.find_test(training)
        return self.bench.test(training)

    def results(self, method: Method, dataset: Dataset, **options: Any) -> list[dict[str, Any]]:
        """The test results of all seeds that are there."""
        found = [self.result(method, dataset, seed, **options) for seed in self.seeds]
        return [one for one in found if one is not None]

    def _may_train(self) -> bool:
        return self.bench.processor_seconds < self._budget
