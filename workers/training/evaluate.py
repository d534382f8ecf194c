"""Evaluate a stored hPLM on a labelled file as serving answers it, and keep its answer to each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CascadeProfile
from inference.hplm.hplm import Hplm
from workers.training.cascade.costs import measure_costs
from workers.training.cascade.outputs import OutputsByLevel, read_both_levels
from workers.training.cascade.selection import fit_profile, level_metrics, summary
from workers.training.cascade.simulation import Simulation, escalated_under
from workers.training.datasets import Example, read_examples
from workers.training.evaluation_answers import write_answers
from workers.training.lower_states import LOWER_MODES, TABLE_MODE
from workers.training.precision import configure_torch
from workers.training.prepared_split import Backbone, PreparedSplit, prepare_split, split_metrics
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks import task_kind
from workers.training.tasks.base import EvaluatedRow, TaskKind


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """policy: at which levels the texts are answered."""

    device: str = "auto"
    precision: str = "auto"
    policy: AnswerPolicy = AnswerPolicy.CASCADE


def evaluate(
    *,
    root: Path,
    plots: list[Path],
    hplm: Path,
    dataset_file: Path,
    task: str,
    reporter: Reporter,
    lower: Path | None = None,
    train_file: Path | None = None,
    cascade: Path | None = None,
    dev_file: Path | None = None,
    settings: EvaluateSettings | None = None,
    scratch: Path | None = None,
    answers: Path | None = None,
    profile_out: Path | None = None,
) -> dict[str, Any]:
    """Return {policy, metric, value, majority_baseline, rows, per_label, truncated_share, plot_hits, …} of
    the answers under settings.policy, and `levels` of all three ways to answer, see `level_metrics`; of an
    hPLM that is table_only, of the level TABLE alone.

    The profile of the cascade is that of the folder `cascade`, else that of `hplm`. If there is none, it is
    fitted on dev_file, stored in the new folder `profile_out`, and summed up as `cascade`. The evaluated file
    may be dev_file: it is read once then.

    plots: folders of the lookup tables, nearest first, the root's last. lower: the lower layers of the
    nearest version. train_file: what the baselines are fitted on; without it they are fitted on the evaluated
    file itself, which flatters them. scratch: on whose disk the states lie (None: that of temporary files).
    answers: a new folder for the answer to each row.
    """
    settings = settings or EvaluateSettings()
    stored = _Stored.open(root, plots, lower, hplm, task, settings)
    profile, report = CascadeProfile.load(cascade or hplm), dict[str, Any]()
    read: _Read | None = None
    if profile is None and dev_file is not None and not stored.hplm.table_only:
        read = stored.read(dev_file, reporter, scratch)
        profile = _fit_cascade(stored, read, profile_out)
        report["cascade"] = summary(profile)
    if read is None or dataset_file != dev_file:
        read = stored.read(dataset_file, reporter, scratch)
    reporter.start_stage("evaluate", 1)
    train = read.split.examples if train_file is None else read_examples(train_file, task)
    metrics, evaluated = evaluate_outputs(
        read.split, read.outputs, settings.policy, profile, train, table_only=stored.hplm.table_only
    )
    if answers is not None:
        write_answers(answers, task=task, file=dataset_file, evaluated=evaluated)
    reporter.report(1)
    return report | metrics


@dataclass(frozen=True)
class _Read:
    """A file's rows with their states at the cut, and what the model makes of them."""

    split: PreparedSplit
    outputs: OutputsByLevel


@dataclass(frozen=True)
class _Stored:
    """A stored hPLM, ready to run on its root and tables."""

    hplm: Hplm
    kind: TaskKind
    model: TaskModel
    backbone: Backbone

    @classmethod
    def open(
        cls,
        root: Path,
        plots: Sequence[Path],
        lower: Path | None,
        folder: Path,
        task: str,
        settings: EvaluateSettings,
    ) -> Self:
        precision = configure_torch(device=settings.device, precision=settings.precision, seed=0)
        backbone = Backbone.open(root, plots, precision, lower)
        hplm = Hplm.load(folder, precision.device)
        kind = task_kind(task, hplm.labels, hplm.threshold)
        return cls(hplm, kind, TaskModel(hplm.pet, hplm.head).to(precision.device), backbone)

    def read(self, file: Path, reporter: Reporter, scratch: Path | None) -> _Read:
        """The rows of a labelled file at both levels; of an hPLM that is table_only, from the tables."""
        modes = TABLE_MODE if self.hplm.table_only else LOWER_MODES
        examples = read_examples(file, self.kind.name)
        split = prepare_split(examples, self.kind, self.backbone, reporter, modes=modes, folder=scratch)
        return _Read(split, read_both_levels(self.model, self.backbone, split, self.kind, reporter))


def _fit_cascade(stored: _Stored, dev: _Read, out: Path | None) -> CascadeProfile:
    """The profile by the dev split, stored in the new folder `out`."""
    profile = fit_profile(dev.outputs, measure_costs(stored.model, stored.backbone, dev.split))
    if out is not None:
        out.mkdir(parents=True)
        profile.save(out)
    return profile


def evaluate_outputs(
    split: PreparedSplit,
    outputs: OutputsByLevel,
    policy: AnswerPolicy,
    profile: CascadeProfile | None,
    train: list[Example],
    *,
    table_only: bool,
) -> tuple[dict[str, Any], list[EvaluatedRow]]:
    """The metrics of the answers under a policy, as `evaluate` returns them, and each answer beside the
    expected one. train: what the baselines are fitted on. table_only: see `Hplm`."""
    plan = answer_plan(policy, outputs.output_kind, profile, table_only=table_only)
    simulation = Simulation.of(outputs, profile)
    escalated = escalated_under(plan, outputs)
    answers = simulation.answers(escalated, plan.weight)
    evaluated = simulation.evaluate(answers, simulation.served_confidences(escalated, plan, profile))
    metrics = split_metrics(split, answers, outputs.kind, train)
    if table_only:
        return {
            "policy": AnswerPolicy.TABLE.value,
            **metrics,
            "levels": {"table": metrics["value"]},
        }, evaluated
    return {"policy": policy.value, **metrics, "levels": level_metrics(outputs, profile)}, evaluated
