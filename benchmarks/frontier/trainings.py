"""The trained models of the frontier: each method on each dataset with each seed, as far as there is time.

All methods get the same grid: on seed 0 several learning rates, on the others the best of them. The epoch is
chosen on the dev split.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.accuracy.data import Dataset, canonical, draw_rows
from benchmarks.accuracy.methods import ADAPTER, DEDICATED, HBERT, Inputs, Method, train_full
from benchmarks.frontier.branch import Branch
from benchmarks.result_cache import ResultCache, bench_dir, cache_folder
from workers.training.datasets import DatasetFiles
from workers.training.fine_tune import fine_tune
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings

METHODS: Final = (DEDICATED, ADAPTER, HBERT)
SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class Grid:
    """trials: learning rates of seed 0. epochs: at most. patience: epochs without a better dev metric after
    which training stops. rows: of each split that are used, at most, drawn by chance; None: all."""

    trials: int = 3
    epochs: int = 15
    patience: int = 4
    rows: int | None = None


class Trainings:
    """Trains what no earlier run has cached. hours: processor time after which no training begins; None for
    no limit, 0 for none at all."""

    def __init__(
        self, branch: Branch, grid: Grid, runs: ResultCache, reporter: Reporter, hours: float | None = None
    ) -> None:
        self._branch, self._grid, self._runs, self._reporter = branch, grid, runs, reporter
        self._ends = None if hours is None else time.process_time() + hours * SECONDS_PER_HOUR

    def result(self, dataset: Dataset, method: Method, seed: int) -> Mapping[str, Any] | None:
        """{dev, test, learning_rate, …} of a training, metrics from 0 to 1; None if it is not covered."""
        key = self._key(dataset, method, seed)
        if key is None:
            return None
        cached = self._runs.get(key)
        if cached is None and self._may_begin():
            return self._runs.get_or_compute(key, lambda: self._train(dataset, method, key))
        return cached

    def model(self, dataset: Dataset, method: Method, seed: int) -> Path | None:
        """The folder of a trained model with a PET; None if it is not covered."""
        key = self._key(dataset, method, seed)
        if key is None or self.result(dataset, method, seed) is None:
            return None
        return cache_folder("hplms", key)

    def files(self, dataset: Dataset) -> DatasetFiles:
        """The rows of the dataset that are used."""
        folder = bench_dir() / "data" / dataset.name
        files, rows = canonical(dataset, folder), self._grid.rows
        if rows is None:
            return files
        drawn = folder.with_name(f"{dataset.name}-{rows}-of-each")
        drawn.mkdir(exist_ok=True)
        return DatasetFiles(**{name: draw_rows(path, rows, drawn) for name, path in _paths(files).items()})

    def inputs(self, dataset: Dataset) -> Inputs:
        """What the dataset's models are trained on."""
        branch = self._branch
        tables = list(branch.tables[dataset.domain])
        return Inputs(branch.root, branch.lower, tables, self.files(dataset), dataset.task)

    def _key(self, dataset: Dataset, method: Method, seed: int) -> dict[str, Any] | None:
        """None while the best learning rate is not known."""
        rate, trials = method.rate, self._grid.trials
        if seed:
            first = self.result(dataset, method, 0)
            if first is None:
                return None
            rate, trials = float(first["learning_rate"]), 1
        settings = FineTuneSettings(
            seed=seed,
            learning_rate=rate,
            trials=trials,
            epochs=self._grid.epochs,
            patience=self._grid.patience,
            full_context_share=method.full_context_share,
            lower_mode=method.lower_mode,
        )
        return {
            "dataset": dataset.name,
            "method": asdict(method),
            "settings": asdict(settings),
            "rows": self._grid.rows,
            "branch": self._branch.key,
        }

    def _train(self, dataset: Dataset, method: Method, key: dict[str, Any]) -> dict[str, Any]:
        inputs, settings = self.inputs(dataset), FineTuneSettings(**key["settings"])
        if method is DEDICATED:
            return train_full(method, inputs, settings, self._reporter)
        report = fine_tune(
            root=inputs.root,
            plots=inputs.plots,
            dataset=inputs.files,
            task=inputs.task,
            out=cache_folder("hplms", key),
            settings=settings,
            reporter=self._reporter,
            lower=inputs.lower,
        )
        return {
            "dev": report["dev"]["value"],
            "test": report["test"]["value"],
            "learning_rate": report["learning_rate"],
            "trials": report["trials"],
        }

    def _may_begin(self) -> bool:
        return self._ends is None or time.process_time() < self._ends


def _paths(files: DatasetFiles) -> dict[str, Path]:
    return {"train": files.train, "dev": files.dev, "test": files.test}
