"""The quick version of a model: a linear head on what the frozen root gives, fitted in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import torch

from inference.cascade.dispatcher import AnswerPolicy, Level
from inference.errors import HplmError
from inference.hplm.heads import Head, Pooling
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.text.tasks import MULTILABEL, QUICK_TASKS, REGRESSION, Task
from workers.training.cascade.outputs import OutputsByLevel, read_both_levels
from workers.training.datasets import DatasetFiles, Example, read_examples
from workers.training.disk import atomic_folders
from workers.training.evaluate import evaluate_outputs
from workers.training.evaluation_answers import write_answers
from workers.training.label_checks import find_suspects
from workers.training.linear_probe import LinearProbe, Regression, calibrated, fit_probe
from workers.training.precision import configure_torch
from workers.training.prepared_split import (
    Backbone,
    PreparedSplit,
    compute_features,
    imbalance,
    prepare_split,
    split_metrics,
)
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks import task_kind
from workers.training.tasks.base import IGNORE_INDEX, TaskKind

MAX_ROWS: Final = {"train": 2_000, "dev": 300, "test": 400}
"""Rows of each split that are read, evenly sampled: a split of any size takes seconds."""
MAX_WORDS: Final = 15_000
"""Words of the training split of a tagger that are read."""
REGRESSIONS: Final[dict[str, Regression]] = {MULTILABEL: "logistic", REGRESSION: "ridge"}
"""By task; the others have one class for each text or word."""


@dataclass(frozen=True, kw_only=True)
class QuickSettings:
    """Where the fit computes, and in which number format."""

    device: str = "auto"
    precision: str = "auto"


def quick_fit(
    *,
    root: Path,
    plots: list[Path],
    dataset: DatasetFiles,
    task: str,
    out: Path,
    answers: Path,
    settings: QuickSettings,
    reporter: Reporter,
    lower: Path | None = None,
) -> dict[str, Any]:
    """Fit a head on dataset.train, measure it on dataset.dev and dataset.test, write the hPLM to `out`, and
    the answer to each row of dataset.test to the new folder `answers`.

    The head is fitted on looked-up states, and answers at the level TABLE alone: computed ones, which it has
    not seen, cost it up to 15 points. Its probabilities are calibrated by cross-validation.

    Returns the reports of both jobs that make a trained version, by their kinds, and of this one:
    {"fine_tune": {…}, "evaluate": {…}, "quick": {"suspects": […]}}, see `find_suspects`. Raises HplmError:
    one_label, too_few_rows, malformed_row, invalid_field for a task without a quick version (`QUICK_TASKS`).
    """
    if task not in QUICK_TASKS:
        raise HplmError("invalid_field", f"Models for {task.replace('_', ' ')} have no quick version.")
    precision = configure_torch(device=settings.device, precision=settings.precision, seed=0)
    backbone = Backbone.open(root, plots, precision, lower)
    train, dev, test = (read_examples(path, task) for path in (dataset.train, dataset.dev, dataset.test))
    kind = task_kind(task)
    kind.fit(train)
    fitted = _Fitting(backbone, kind, train, reporter, out.parent).run()
    hplm = fitted.hplm
    kind = task_kind(task, hplm.labels, hplm.threshold)
    model = TaskModel(hplm.pet, hplm.head).to(precision.device)

    def read(examples: list[Example]) -> tuple[PreparedSplit, OutputsByLevel]:
        split = prepare_split(examples, kind, backbone, reporter, folder=out.parent)
        return split, read_both_levels(model, backbone, split, kind, reporter)

    split, outputs = read([dev[row] for row in _evenly(len(dev), MAX_ROWS["dev"])])
    report = fitted.report | {
        "dev": split_metrics(split, outputs.answers(Level.TABLE), kind, train),
        "labels": list(hplm.labels),
        "bytes": hplm.bytes,
    }
    with atomic_folders(out):
        hplm.save(out)
    rows = _evenly(len(test), MAX_ROWS["test"])
    split, outputs = read([test[row] for row in rows])
    reporter.start_stage("evaluate", 1)
    evaluation, evaluated = evaluate_outputs(split, outputs, AnswerPolicy.TABLE, None, train, table_only=True)
    by_row = dict(zip(rows, evaluated, strict=True))
    write_answers(
        answers, task=task, file=dataset.test, evaluated=[by_row.get(row) for row in range(len(test))]
    )
    reporter.report(1)
    return {"fine_tune": report, "evaluate": evaluation, "quick": {"suspects": fitted.suspects}}


@dataclass(frozen=True)
class _Fitted:
    hplm: Hplm
    report: dict[str, Any]
    suspects: list[dict[str, Any]]


@dataclass(frozen=True)
class _Fitting:
    """Fits the head on the training split, as the tables give it."""

    backbone: Backbone
    kind: TaskKind
    train: list[Example]
    reporter: Reporter
    folder: Path

    def run(self) -> _Fitted:
        """The hPLM, which has no PET, the report and the suspects."""
        config = self.backbone.root.config
        shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
        pet = PetWeights.initial(PetSpec(), shape)
        pooling: Pooling = "token_cut_last" if self.kind.per_token else "cut_last"
        rows = _training_rows(self.train)
        split = prepare_split(
            [self.train[row] for row in rows], self.kind, self.backbone, self.reporter, folder=self.folder
        )
        self.reporter.start_stage("fit", 2)
        unfitted = TaskModel(pet, Head.initial(len(self.kind.labels), config.hidden, pooling=pooling))
        features = compute_features(
            unfitted.to(self.backbone.precision.device), self.backbone, split, self.kind, self.reporter
        )
        self.reporter.report(1)
        probe, suspects = self._fit(features, split, rows)
        self.reporter.report(2)
        head = Head(torch.from_numpy(probe.weight), torch.from_numpy(probe.bias), pooling)
        counts = self.kind.class_counts(self.train)
        report = {
            "train_rows": len(self.train),
            "fitted_rows": len(rows),
            "penalty": probe.penalty,
            "class_counts": counts,
            "imbalance": imbalance(counts),
            "truncated_share": split.truncated_share,
        }
        hplm = Hplm(
            cast("Task", self.kind.name),
            tuple(self.kind.labels),
            pet,
            self.kind.serving_head(head),
            any(example.pair is not None for example in self.train),
            metadata=report,
        )
        return _Fitted(hplm, report, suspects)

    def _fit(
        self, features: Sequence[npt.NDArray[np.float32]], split: PreparedSplit, rows: Sequence[int]
    ) -> tuple[LinearProbe, list[dict[str, Any]]]:
        """The probe, and the suspects by their rows in the training split. Each example is one sequence."""
        pairs = zip(split.examples, split.sequences, strict=True)
        targets = [self.kind.target(example, encoding) for example, encoding in pairs]
        if self.kind.per_token:
            known = [target != IGNORE_INDEX for target in targets]
            groups = np.repeat(np.arange(len(known)), [int(one.sum()) for one in known])
            given = np.concatenate([own[at] for own, at in zip(features, known, strict=True)])
            expected = np.concatenate([own[at] for own, at in zip(targets, known, strict=True)])
            words = np.concatenate(
                [encoding.word_index[at] for encoding, at in zip(split.sequences, known, strict=True)]
            )
        else:
            given, expected, groups = np.stack(features), np.stack(targets), np.arange(len(targets))
            words = None
        kind = REGRESSIONS.get(self.kind.name, "multinomial")
        if kind == "multinomial":
            expected = np.eye(len(self.kind.labels), dtype=np.float32)[expected]
        probe = fit_probe(given, expected, groups, kind, self.reporter.raise_if_cancelled)
        if kind == "ridge":
            return probe, []
        probe = calibrated(probe, expected, several=kind == "logistic")
        suspects = find_suspects(self.kind, split.examples, probe.held_out, expected, groups, words)
        return probe, [{**one, "row": rows[one["row"]]} for one in suspects]


def _training_rows(train: Sequence[Example]) -> list[int]:
    """The rows that the head is fitted on: evenly sampled, and the first with each label that these lack."""
    most = MAX_ROWS["train"]
    if words := sum(len(example.words) for example in train):
        most = min(most, len(train) * MAX_WORDS // words)
    rows = _evenly(len(train), max(most, 1))
    seen = {label for row in rows for label in train[row].labels}
    for row, example in enumerate(train):
        if not seen.issuperset(example.labels):
            seen.update(example.labels)
            rows.append(row)
    return sorted(rows)


def _evenly(count: int, most: int) -> list[int]:
    """At most so many of the numbers below `count`, at equal distances."""
    chosen = min(count, most)
    return [index * count // chosen for index in range(chosen)]
