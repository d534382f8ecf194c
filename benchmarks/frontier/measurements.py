"""Everything that the frontier measures, dataset by dataset and seed by seed; what is cached is not measured
again."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy import grid
from benchmarks.accuracy.data import DATASETS, Dataset
from benchmarks.accuracy.methods import ADAPTER, DEDICATED, HBERT, Inputs, Method
from benchmarks.accuracy.trainings import Shape, Training
from benchmarks.accuracy.workbench import Workbench, conversion_settings
from benchmarks.frontier.branch import Branch, digest, stored_branch, trained_branch
from benchmarks.frontier.engine import Engine, TrainedModel, questions
from benchmarks.frontier.levels import StoredModel, level_figures
from benchmarks.frontier.path_flips import Load, path_flips
from benchmarks.frontier.serving_cost import Effort, serving_cost
from benchmarks.result_cache import ResultCache, cache_folder
from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CASCADE_FILE, CascadeProfile
from inference.hplm.hplm import WEIGHTS_FILE
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
            console, options.checkpoint, conversion_settings(options.tokens), options.rows
        )
        lower = self._bench.layers // 2
        self._shape = Shape(lower, self._bench.layers - lower)
        self._grid = grid.Grid(
            self._bench,
            epochs=options.epochs,
            seeds=options.seeds,
            may_train=lambda: self._bench.may_train(options.core_hours),
        )
        self._runs = ResultCache("frontier", console)

    @cached_property
    def _branch(self) -> Branch:
        if self._options.branch is None:
            return trained_branch(self._bench, self._shape, self._datasets)
        root, lower, table = self._options.branch
        return stored_branch(root, lower, table, self._datasets)

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
        model = self._model(cell.dataset, cell.seed)
        if model is None:
            return cell
        levels = self._levels(cell.dataset, model)
        cost = self._cost(cell.dataset, model) if cell.seed == 0 and self._options.effort.repeats else None
        return replace(cell, levels=levels, cost=cost)

    def _model(self, dataset: Dataset, seed: int) -> TrainedModel | None:
        """The model as it is served, with its profile; None if it is not covered."""
        folder = self._options.model
        if folder is None:
            training = self._training(dataset, HBERT, seed)
            if training is None:
                return None
            folder = self._bench.model_folder(training)
        key = self._key(dataset, folder)
        kept = cache_folder("cascades", key)
        profile = CascadeProfile.load(kept)
        if profile is None:
            profile = StoredModel(self._inputs(dataset), folder, self._bench.reporter).profile()
            kept.mkdir(exist_ok=True)
            profile.save(kept)
        return TrainedModel(folder, profile, dataset.domain)

    def _levels(self, dataset: Dataset, model: TrainedModel) -> Mapping[str, Any]:
        profile, inputs = model.profile, self._inputs(dataset)
        plans = {
            name: answer_plan(AnswerPolicy.CASCADE, profile.kind, profile, target)
            for name, target in _targets(profile).items()
        }
        return self._runs.get_or_compute(
            {"measured": "levels", "losses": LOSSES, **self._key(dataset, model.folder)},
            lambda: level_figures(
                StoredModel(inputs, model.folder, self._bench.reporter),
                profile,
                inputs.files.test,
                plans,
            ),
        )

    def _cost(self, dataset: Dataset, model: TrainedModel) -> Mapping[str, Any]:
        effort: Effort = self._options.effort
        key = {
            "measured": "cost",
            "losses": LOSSES,
            "effort": asdict(effort),
            "machine": harness.machine(),
            "threads": torch.get_num_threads(),
            "format": self._options.cost_format,
            **self._key(dataset, model.folder),
        }

        def measure() -> dict[str, Any]:
            engine = Engine(self._branch, {dataset.name: model}, number_format=self._options.cost_format)
            asked = questions(dataset.name, self._texts(dataset), effort.texts, tenants=TENANTS)
            return serving_cost(engine, asked, _targets(model.profile), effort)

        return self._runs.get_or_compute(key, measure)

    def _flips(self) -> Mapping[str, Mapping[str, float]]:
        """Of the models of the first seed, as many texts of each dataset."""
        found = {dataset.name: self._model(dataset, 0) for dataset in self._datasets}
        models = {name: model for name, model in found.items() if model is not None}
        count = self._options.flip_texts // max(1, len(models))
        if not models or not count:
            return {}
        asked = [
            one
            for name in models
            for one in questions(name, self._texts(DATASETS[name]), count, tenants=TENANTS)
        ]
        keys = {name: self._key(DATASETS[name], model.folder) for name, model in models.items()}
        return {
            name: self._runs.get_or_compute(
                {"measured": "path flips", "texts": count, "format": name, "models": keys},
                lambda name=name: path_flips(Load(self._branch, models, asked, name)),  # type: ignore[misc]
            )
            for name in self._options.formats
        }

    def _texts(self, dataset: Dataset) -> list[InferInput]:
        """Of the test file."""
        return list(map(_input, read_examples(self._bench.files(dataset).test, dataset.task)))

    def _key(self, dataset: Dataset, model: Path) -> dict[str, Any]:
        files = [file for name in (WEIGHTS_FILE, CASCADE_FILE) if (file := model / name).is_file()]
        return {
            "dataset": dataset.name,
            "rows": self._options.rows,
            "model": digest(files),
            "branch": self._branch.key,
            "prunings": PRUNINGS,
        }


def _targets(profile: CascadeProfile) -> dict[str, float]:
    """By name, the metrics on dev that the cascade is to reach."""
    return {cascade_name(loss): profile.full.metric - loss / 100 for loss in LOSSES}


def _input(example: Example) -> InferInput:
    """As a client would ask it."""
    return InferInput(" ".join(example.words) if example.words else example.text, example.pair)
