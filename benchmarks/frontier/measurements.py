"""Everything that the frontier measures, dataset by dataset and seed by seed; what is cached is not measured
again."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

from rich.console import Console

from benchmarks.accuracy import grid
from benchmarks.accuracy.data import DATASETS, Dataset
from benchmarks.accuracy.methods import ADAPTER, DEDICATED, HBERT, Inputs, Method
from benchmarks.accuracy.trainings import Shape, Training
from benchmarks.accuracy.workbench import Workbench, conversion_settings
from benchmarks.frontier.engine import Branch, Engine, TrainedModel, questions, trained_branch
from benchmarks.frontier.levels import StoredModel, level_figures
from benchmarks.frontier.path_flips import Load, path_flips
from benchmarks.frontier.serving_cost import Effort, serving_cost
from benchmarks.result_cache import cache_folder
from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CascadeProfile
from inference.text.encodings import InferInput
from workers.training.cascade.selection import PRUNINGS
from workers.training.datasets import Example, read_examples

LOSSES: Final = (0.2, 0.5, 1.0)
"""The cascade's targets: points of the dev metric below the level FULL. The first is what serves by
default."""
TENANTS: Final = 32


def cascade_name(loss: float) -> str:
    """The name of the cascade with this target."""
    return f"cascade, −{loss:g}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One dataset with one seed, metrics from 0 to 1; None for what is not covered. levels: see
    `level_figures`. cost: see `serving_cost`, measured with the first seed."""

    dataset: Dataset
    seed: int
    dedicated: float | None
    adapter: float | None
    levels: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """All cells, and by number format the flips of `path_flips`."""

    cells: Sequence[Cell]
    flips: Mapping[str, Mapping[str, float]]


class Measurements:
    """The trainings and measurements that the options ask for."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self._options = options
        self._datasets = [DATASETS[name] for name in options.datasets]
        self._bench = Workbench(
            console,
            options.checkpoint,
            conversion_settings(options.tokens),
            options.rows,
            quick=options.quick,
            committed=options.committed,
        )
        lower = self._bench.layers // 2
        self._shape = Shape(lower, self._bench.layers - lower)
        self._grid = grid.Grid(
            self._bench,
            epochs=options.epochs,
            seeds=options.seeds,
            may_train=lambda: self._bench.may_train(options.core_hours),
        )
        self._kept = self._bench.kept("frontier", "benchmarks/frontier", "inference/engine")

    @cached_property
    def _branch(self) -> Branch:
        return trained_branch(self._bench, self._shape, self._datasets)

    def run(self) -> Found:
        """Train and measure what is missing."""
        self._grid.run(
            [grid.Cell(method, dataset, self._shape) for dataset in self._datasets for method in grid.MAIN]
        )
        cells = [
            self._measured(self._trained(dataset, seed))
            for seed in range(self._options.seeds)
            for dataset in self._datasets
        ]
        return Found(cells, self._flips())

    def report_kept(self) -> dict[str, list[str]]:
        """Print which results are missing or old, and return them."""
        return self._bench.report_kept()

    def _trained(self, dataset: Dataset, seed: int) -> Cell:
        return Cell(dataset, seed, self._test(dataset, DEDICATED, seed), self._test(dataset, ADAPTER, seed))

    def _training(self, dataset: Dataset, method: Method, seed: int) -> Training | None:
        """The training with the best learning rate; None if it is not covered."""
        covered = self._grid.covered(grid.Cell(method, dataset, self._shape))
        chosen = [] if covered is None else covered.chosen
        return next((one for one in chosen if one.settings.seed == seed), None)

    def _test(self, dataset: Dataset, method: Method, seed: int) -> float | None:
        training = self._training(dataset, method, seed)
        return None if training is None else float(self._bench.test(training)["test"])

    def _inputs(self, dataset: Dataset) -> Inputs:
        branch = self._branch
        tables = list(branch.tables[dataset.domain])
        return Inputs(branch.root, branch.lower, tables, self._bench.files(dataset), dataset.task)

    def _measured(self, cell: Cell) -> Cell:
        training = self._training(cell.dataset, HBERT, cell.seed)
        if training is None:
            return cell
        cost = self._cost(training) if cell.seed == 0 and self._options.effort.repeats else None
        return replace(cell, levels=self._levels(training), cost=cost)

    def _model(self, training: Training) -> TrainedModel:
        """The model as it is served, with its profile."""
        folder, kept = self._bench.model(training), cache_folder("cascades", self._key(training))
        profile = CascadeProfile.load(kept)
        if profile is None:
            inputs = self._inputs(training.dataset)
            profile = StoredModel(inputs, folder, self._bench.reporter).profile()
            kept.mkdir(exist_ok=True)
            profile.save(kept)
        return TrainedModel(folder, profile, training.dataset.domain)

    def _levels(self, training: Training) -> Mapping[str, Any] | None:
        def measure() -> dict[str, Any]:
            model, inputs = self._model(training), self._inputs(training.dataset)
            profile = model.profile
            plans = {
                name: answer_plan(AnswerPolicy.CASCADE, profile.kind, profile, target)
                for name, target in _targets(profile).items()
            }
            stored = StoredModel(inputs, model.folder, self._bench.reporter)
            return level_figures(stored, profile, inputs.files.test, plans)

        return self._kept.get_or_compute_unless_committed(
            {"measured": "levels", "losses": LOSSES, **self._key(training)}, measure
        )

    def _cost(self, training: Training) -> Mapping[str, Any] | None:
        effort: Effort = self._options.effort
        dataset = training.dataset

        def measure() -> dict[str, Any]:
            model = self._model(training)
            engine = Engine(self._branch, {dataset.name: model}, number_format=self._options.cost_format)
            asked = questions(dataset.name, self._texts(dataset), effort.texts, tenants=TENANTS)
            return serving_cost(engine, asked, _targets(model.profile), effort)

        key = {
            "measured": "cost",
            "losses": LOSSES,
            "effort": asdict(effort),
            "threads": self._options.threads,
            "format": self._options.format,
            **self._key(training),
        }
        return self._kept.get_or_compute_unless_committed(key, measure, same_machine=True)

    def _flips(self) -> Mapping[str, Mapping[str, float]]:
        """Of the models of the first seed, as many texts of each dataset."""
        found = {dataset.name: self._training(dataset, HBERT, 0) for dataset in self._datasets}
        trainings = {name: training for name, training in found.items() if training is not None}
        count = self._options.flip_texts // max(1, len(trainings))
        if not trainings or not count:
            return {}
        keys = {name: self._key(training) for name, training in trainings.items()}

        def measure(number_format: str) -> dict[str, Any]:
            models = {name: self._model(training) for name, training in trainings.items()}
            asked = [
                one
                for name in models
                for one in questions(name, self._texts(DATASETS[name]), count, tenants=TENANTS)
            ]
            return path_flips(Load(self._branch, models, asked, number_format))

        flips = {
            name: self._kept.get_or_compute_unless_committed(
                {"measured": "path flips", "texts": count, "format": name, "models": keys},
                partial(measure, name),
            )
            for name in self._options.formats
        }
        return {name: shares for name, shares in flips.items() if shares is not None}

    def _texts(self, dataset: Dataset) -> list[InferInput]:
        """Of the test file."""
        return list(map(_input, read_examples(self._bench.files(dataset).test, dataset.task)))

    def _key(self, training: Training) -> dict[str, Any]:
        return {"training": self._bench.key(training), "prunings": PRUNINGS}


def _targets(profile: CascadeProfile) -> dict[str, float]:
    """By name, the metrics on dev that the cascade is to reach."""
    return {cascade_name(loss): profile.full.metric - loss / 100 for loss in LOSSES}


def _input(example: Example) -> InferInput:
    """As a client would ask it."""
    return InferInput(" ".join(example.words) if example.words else example.text, example.pair)
