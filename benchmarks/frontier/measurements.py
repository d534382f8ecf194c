"""Everything that the frontier measures, seed by seed; what is kept is not measured again."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final

from benchmarks.accuracy.data import DATASETS, Dataset
from benchmarks.accuracy.methods import DEDICATED, HBERT
from benchmarks.accuracy.schedule import Schedule
from benchmarks.accuracy.trainings import Training
from benchmarks.frontier.engine import Branch, Engine, TrainedModel, questions
from benchmarks.frontier.mixer_cost import mixer_cost
from benchmarks.frontier.path_flips import Load, path_flips
from benchmarks.frontier.serving_cost import serving_cost
from inference.cascade.profile import CascadeProfile
from inference.text.encodings import InferInput
from workers.training.datasets import Example, read_examples

TENANTS: Final = 32
Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One dataset with one seed; None for what is missing.

    dedicated, model, on_root: test results (see `run_test`) of every parameter fine-tuned, of the product's
    model, and of the same below the root although the dataset has a domain. cost: see `serving_cost`,
    measured with the first seed.
    """

    dataset: Dataset
    seed: int
    dedicated: Result | None
    model: Result | None
    on_root: Result | None = None
    cost: Result | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """All cells; by path the flips of `path_flips`, empty if not measured; see `mixer_cost`."""

    cells: Sequence[Cell]
    flips: Mapping[str, float]
    mixer_cost: float | None = None


class Measurements:
    """The trainings and measurements that the options ask for."""

    def __init__(self, schedule: Schedule, options: argparse.Namespace) -> None:
        self._schedule, self._bench, self._options = schedule, schedule.bench, options
        self._kept = self._bench.kept("frontier", "benchmarks/frontier", "inference/engine")

    def run(self) -> Found:
        """Train and measure what is missing: of each seed the product's models of all datasets, then the
        dedicated ones, which take longest."""
        cells = [cell for seed in self._schedule.seeds for cell in self._cells(seed)]
        return Found(cells, self._flips(cells), self._mixer_cost())

    def _cells(self, seed: int) -> list[Cell]:
        datasets: Sequence[Dataset] = self._options.datasets
        cells = [self._product(one, seed) for one in datasets]
        return [
            replace(cell, dedicated=self._schedule.result(DEDICATED, cell.dataset, seed)) for cell in cells
        ]

    def _product(self, dataset: Dataset, seed: int) -> Cell:
        model = self._schedule.result(HBERT, dataset, seed)
        cost = None if seed or model is None else self._cost(dataset)
        on_root = self._schedule.result(HBERT, dataset, seed, on_root=True) if dataset.has_domain else None
        return Cell(dataset, seed, None, model, on_root, cost)

    def _cost(self, dataset: Dataset) -> Result | None:
        effort, training = self._options.effort, self._schedule.training(HBERT, dataset)
        if not effort.texts:
            return None

        def measure() -> dict[str, Any]:
            models = {dataset.name: self._model(training)}
            engine = Engine(self._branch, models, number_format=self._options.served_format)
            asked = questions(dataset.name, self._texts(dataset), effort.texts, tenants=TENANTS)
            return serving_cost(engine, asked, effort)

        key = {
            "measured": "cost",
            "effort": asdict(effort),
            "threads": self._options.threads,
            "format": self._options.format,
            "training": self._bench.key(training),
        }
        return self._kept.get_or_compute_unless_committed(key, measure, same_machine=True)

    def _flips(self, cells: Sequence[Cell]) -> Mapping[str, float]:
        """Of the models of the first seed, as many texts of each dataset."""
        trained = [cell.dataset for cell in cells if cell.seed == 0 and cell.model is not None]
        trainings = {one.name: self._schedule.training(HBERT, one) for one in trained}
        count = self._options.flip_texts // max(1, len(trainings))
        if not trainings or not count:
            return {}

        def measure() -> dict[str, Any]:
            models = {name: self._model(training) for name, training in trainings.items()}
            asked = [
                one
                for name in models
                for one in questions(name, self._texts(DATASETS[name]), count, tenants=TENANTS)
            ]
            return path_flips(Load(self._branch, models, asked, self._options.served_format))

        models = {name: self._bench.key(training) for name, training in trainings.items()}
        key = {"measured": "path flips", "texts": count, "format": self._options.format, "models": models}
        return self._kept.get_or_compute_unless_committed(key, measure) or {}

    def _mixer_cost(self) -> float | None:
        texts = self._options.effort.texts
        if not texts:
            return None

        def measure() -> dict[str, Any]:
            asked = [one.text for one in self._texts(self._options.datasets[0])]
            return {"value": mixer_cost(self._branch, asked[:texts], self._options.served_format)}

        branches = self._bench.branches
        key = {
            "measured": "mixer",
            "root": branches.root_key(branches.shape),
            "texts": texts,
            "format": self._options.format,
        }
        found = self._kept.get_or_compute_unless_committed(key, measure, same_machine=True)
        return None if found is None else found["value"]

    @cached_property
    def _branch(self) -> Branch:
        branches = self._bench.branches
        converted = branches.root(branches.shape)
        domains = {one.domain: one.domain if one.has_domain else None for one in self._options.datasets}
        return Branch(
            converted.root,
            {name: branches.lower(converted, domain) for name, domain in domains.items()},
            {name: branches.tables(converted, domain) for name, domain in domains.items()},
        )

    def _model(self, training: Training) -> TrainedModel:
        """As it is served, with its profile."""
        folder = self._bench.model(training)
        profile = CascadeProfile.load(folder)
        assert profile is not None, f"fine-tuning wrote no profile into {folder}"
        return TrainedModel(folder, profile, training.dataset.domain)

    def _texts(self, dataset: Dataset) -> list[InferInput]:
        """Of the test file."""
        return list(map(_input, read_examples(self._bench.files(dataset).test, dataset.task)))


def _input(example: Example) -> InferInput:
    """As a client would ask it."""
    return InferInput(" ".join(example.words) if example.words else example.text, example.pair)
