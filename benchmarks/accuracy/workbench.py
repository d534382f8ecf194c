"""Trainings that several benchmarks share: each is run once, and its model and results are kept.

A stopped benchmark goes on where it was: conversions and trainings from their last checkpoint, tables from
their finished parts.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.accuracy.data import SPLITS, Dataset, canonical, draw_rows
from benchmarks.accuracy.methods import Inputs
from benchmarks.accuracy.reporters import ConsoleReporter
from benchmarks.accuracy.trained_branches import Branches
from benchmarks.accuracy.trainings import Training, run_test, run_training
from benchmarks.result_cache import KeptResults, bench_dir, code_digest, fingerprint, report_kept
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles
from workers.training.progress import Reporter

MADE_BY = ("inference/cascade", "inference/hplm", "workers/training")
"""The code that roots, domains, tables and models are made by: the context mixer and its training, say."""
CODE = (
    "benchmarks/accuracy/data.py",
    "benchmarks/accuracy/methods.py",
    "benchmarks/accuracy/trainings.py",
    *MADE_BY,
)
"""What trainings and tests depend on."""


class Workbench:
    """Computes what earlier runs have not kept. What other code has made is made again.

    checkpoint, tokens, lines: see `Branches`. rows: of each split that are used, at most, drawn by chance;
    None: all. quick, committed: see `KeptResults`.
    """

    def __init__(
        self,
        console: Console,
        checkpoint: Path | None = None,
        tokens: int | None = None,
        rows: int | None = None,
        lines: int | None = None,
        *,
        quick: bool = False,
        committed: bool = False,
    ) -> None:
        self.reporter: Reporter = ConsoleReporter(console)
        self._console = console
        self._data = bench_dir() / "data"
        self._made = bench_dir() / code_digest(MADE_BY)
        self._rows = rows
        self.branches = Branches(
            console,
            self.reporter,
            self._made,
            self._data,
            checkpoint=checkpoint,
            tokens=tokens,
            lines=lines,
        )
        self.committed, self._quick = committed, quick
        self._kept: list[KeptResults] = []
        self._trainings, self._tests = self.kept("trainings"), self.kept("tests")
        self._costs: dict[str, float] = {}

    def kept(self, name: str, *code: str) -> KeptResults:
        """Further kept results, of this run's kind. code: what they depend on besides CODE."""
        found = KeptResults(
            name, self._console, code=(*CODE, *code), quick=self._quick, committed=self.committed
        )
        self._kept.append(found)
        return found

    @property
    def processor_seconds(self) -> float:
        """The cost of all results that were asked for, in this run or an earlier one. Of what was killed and
        went on, only the last part counts."""
        return sum(self._costs.values()) + sum(self.branches.costs.values())

    def find(self, training: Training) -> dict[str, Any] | None:
        """What `train` returns, if it has been run; else None."""
        key = self.key(training)
        found = self._trainings.get(key)
        return None if found is None else self._counted(key, found)

    def find_test(self, training: Training) -> dict[str, Any] | None:
        """What `test` returns, if it has been run; else None."""
        return self._tests.get({"training": self.key(training)})

    def report_kept(self) -> dict[str, list[str]]:
        """Print which results are missing or old, and return them."""
        return report_kept(self._console, *self._kept)

    def train(self, training: Training) -> dict[str, Any]:
        """The result of `run_training`, with {seconds, cpu_seconds}."""
        key = self.key(training)
        if not self.committed and self._trainings.get(key) is None:
            self.inputs(training)  # what they cost is counted apart
        return self._counted(key, self._trainings.get_or_compute(key, lambda: self._train(training)))

    def model(self, training: Training) -> Path:
        """The folder of the trained model: the product's artifact, or the weights of a model without a PET.
        It is trained again if only its result was kept."""
        folder = self._model_folder(training)
        if not folder.is_dir():
            self._train(training)
        return folder

    def test(self, training: Training, tables: Sequence[Path] | None = None) -> dict[str, Any]:
        """The result of `run_test` for a training, which is run if it was not, and {seconds, cpu_seconds}."""
        self.train(training)
        key: dict[str, Any] = {"training": self.key(training)}
        if tables is not None:
            key["tables"] = [table.parent.name for table in tables]

        def compute() -> dict[str, Any]:
            model = self.model(training)
            return run_test(training, self.inputs(training), model, self.reporter, tables)

        return self._counted(key, self._tests.get_or_compute(key, compute))

    def inputs(self, training: Training) -> Inputs:
        """What a training reads."""
        dataset, branches = training.dataset, self.branches
        converted = branches.root(training.shape)
        files = self.files(dataset)
        if training.subset is not None:
            files = training.subset.files(files, self._data / "tenants" / dataset.name)
        lower = branches.lower(converted, training.domain)
        tables = branches.tables(converted, training.domain)
        return Inputs(converted.root, lower, tables, files, dataset.task)

    def files(self, dataset: Dataset) -> DatasetFiles:
        """The rows of the dataset that are used."""
        folder = self._data / dataset.name
        files = canonical(dataset, folder)
        if self._rows is None:
            return files
        drawn = folder.with_name(f"{dataset.name}-{self._rows}-of-each")
        drawn.mkdir(exist_ok=True)
        return DatasetFiles(
            **{split: draw_rows(folder / f"{split}.jsonl", self._rows, drawn) for split in SPLITS}
        )

    def _model_folder(self, training: Training) -> Path:
        return self._made / "models" / fingerprint(self.key(training))

    def _train(self, training: Training) -> dict[str, Any]:
        """Train, or go on from the last checkpoint, and write the model's folder."""
        folder = self._model_folder(training)
        checkpoints = folder.with_suffix(".checkpoints")
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed as it wrote the model
        folder.parent.mkdir(parents=True, exist_ok=True)
        store = CheckpointStore(checkpoints)
        found = run_training(training, self.inputs(training), folder, self.reporter, store)
        shutil.rmtree(checkpoints, ignore_errors=True)
        return found

    def key(self, training: Training) -> dict[str, Any]:
        """All that the result depends on. A method that trains all layers does not depend on a conversion."""
        whole = training.method.trained == "all"
        published = {"checkpoint": self.branches.name, "layers": training.shape.layers}
        return {
            "dataset": training.dataset.name,
            "method": training.method.name,
            "cut": None if whole else str(training.shape),
            "domain": None if whole else training.domain,
            "root": published if whole else self.branches.key(training.shape, training.domain),
            "settings": asdict(training.settings),
            "subset": None if training.subset is None else asdict(training.subset),
            "rows": self._rows,
        }

    def _counted(self, key: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """The result; its processor time counts once."""
        self._costs[fingerprint(key)] = result["cpu_seconds"]
        return result
