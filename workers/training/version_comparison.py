"""Compare two versions of a model on the same rows, each answering as it is served."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CascadeProfile
from inference.hplm.hplm import Hplm
from inference.text.tasks import REGRESSION
from workers.training.cascade.outputs import read_both_levels
from workers.training.cascade.simulation import Simulation, escalated_under
from workers.training.datasets import Example, read_examples
from workers.training.lower_states import LOWER_MODES
from workers.training.paired_test import PairedResult, only_statistic, p_value_worse
from workers.training.precision import Precision, configure_torch
from workers.training.prepared_split import Backbone, PreparedSplit, prepare_split
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks import task_kind
from workers.training.tasks.base import Floats, TaskKind

MEAN_ABSOLUTE_ERROR: Final = "mean_absolute_error"


@dataclass(frozen=True, kw_only=True)
class VersionFiles:
    """The folders of a version: its root, its tables nearest first, its lower layers, model and cascade."""

    root: Path
    plots: Sequence[Path]
    hplm: Path
    lower: Path | None
    cascade: Path | None
    policy: AnswerPolicy


def compare_versions(
    *,
    old: VersionFiles,
    new: VersionFiles,
    files: Mapping[str, Path],
    task: str,
    device: str,
    precision: str,
    reporter: Reporter,
    scratch: Path,
) -> dict[str, PairedResult]:
    """The result for each of these labelled files. A label that a version does not know is wrong for it.

    The metric is the task's. For numbers it is the mean absolute error, as a correlation has no errors of
    rows.
    """
    chosen = configure_torch(device=device, precision=precision, seed=0)
    examples = {name: read_examples(file, task) for name, file in files.items()}
    read = _read(old, task, examples, chosen, reporter, scratch)
    before = _answered(old, task, *read, reporter)
    # Versions of the same branch read the same states: a quick version and the trained one.
    if (old.root, old.plots, old.lower) != (new.root, new.plots, new.lower):
        read = _read(new, task, examples, chosen, reporter, scratch)
    after = _answered(new, task, *read, reporter)
    return {name: _compare(before[name], after[name]) for name in files}


@dataclass(frozen=True)
class _Answered:
    kind: TaskKind
    examples: list[Example]
    answers: list[Any]


def _read(
    version: VersionFiles,
    task: str,
    examples: Mapping[str, list[Example]],
    precision: Precision,
    reporter: Reporter,
    scratch: Path,
) -> tuple[Backbone, dict[str, PreparedSplit]]:
    """A version's backbone, and the states of each split at both levels."""
    backbone = Backbone.open(version.root, version.plots, precision, version.lower)
    splits = {
        name: prepare_split(rows, task_kind(task), backbone, reporter, modes=LOWER_MODES, folder=scratch)
        for name, rows in examples.items()
    }
    return backbone, splits


def _answered(
    version: VersionFiles,
    task: str,
    backbone: Backbone,
    splits: Mapping[str, PreparedSplit],
    reporter: Reporter,
) -> dict[str, _Answered]:
    """What a version answers to each split."""
    device = backbone.precision.device
    stored = Hplm.load(version.hplm, device)
    profile = CascadeProfile.load(version.cascade or version.hplm)
    kind = task_kind(task, stored.labels, stored.threshold)
    model = TaskModel(stored.pet, stored.head).to(device)
    found = {}
    for name, split in splits.items():
        outputs = read_both_levels(model, backbone, split, kind, reporter)
        plan = answer_plan(version.policy, outputs.output_kind, profile, table_only=stored.table_only)
        simulation = Simulation.of(outputs, profile)
        answers = simulation.answers(escalated_under(plan, outputs), plan.weight)
        found[name] = _Answered(kind, split.examples, answers)
    return found


def _compare(old: _Answered, new: _Answered) -> PairedResult:
    kind, rows = new.kind, len(new.examples)
    before, after = _statistics(old), _statistics(new)
    if kind.name == REGRESSION:
        worse = p_value_worse(before, after, only_statistic)
        return PairedResult(MEAN_ABSOLUTE_ERROR, rows, -before.mean(), -after.mean(), worse)
    was, now = (float(kind.metric_of(one.sum(axis=0))) for one in (before, after))
    # Baselines are not read here; one example keeps them short.
    metric = kind.compute_metrics(new.examples, new.answers, new.examples[:1])["metric"]
    return PairedResult(metric, rows, was, now, p_value_worse(before, after, kind.metric_of))


def _statistics(answered: _Answered) -> Floats:
    """What each row adds to the metric [N, K]."""
    pairs = zip(answered.examples, answered.answers, strict=True)
    if answered.kind.name == REGRESSION:
        return np.asarray([[-abs(one.value - float(answer))] for one, answer in pairs])
    return np.asarray([answered.kind.statistics(one, answer) for one, answer in pairs], dtype=np.float64)
