"""Evaluate a stored hPLM on a labelled file as serving answers it, and keep its answer to each row."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CascadeProfile
from inference.errors import HplmError
from inference.hplm.hplm import Hplm
from inference.hplm.root import Root
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
from workers.training.tasks.base import EvaluatedRow


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """policy: at which levels the texts are answered. int8: compute with int8 weights, which the root must
    have scales for."""

    device: str = "auto"
    precision: str = "auto"
    policy: AnswerPolicy = AnswerPolicy.CASCADE
    int8: bool = False


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
    fitted on dev_file, stored in the new folder `profile_out`, and summed up as `cascade`.

    plots: folders of the lookup tables, nearest first, the root's last. lower: the lower layers of the
    nearest version. train_file: what the baselines are fitted on; without it they are fitted on the evaluated
    file itself, which flatters them. scratch: on whose disk the states lie (None: that of temporary files).
    answers: a new folder for the answer to each row.
    """
    settings = settings or EvaluateSettings()
    precision = configure_torch(device=settings.device, precision=settings.precision, seed=0)
    backbone = Backbone.open(root, plots, precision, lower)
    if settings.int8:
        _quantize(backbone.root)
    stored = Hplm.load(hplm, precision.device)
    kind = task_kind(task, stored.labels, stored.threshold)
    model = TaskModel(stored.pet, stored.head).to(precision.device)

    modes = TABLE_MODE if stored.table_only else LOWER_MODES

    def read(file: Path) -> tuple[PreparedSplit, OutputsByLevel]:
        examples = read_examples(file, task)
        split = prepare_split(examples, kind, backbone, reporter, modes=modes, folder=scratch)
        return split, read_both_levels(model, backbone, split, kind, reporter)

    report: dict[str, Any] = {}
    profile = CascadeProfile.load(cascade or hplm)
    if profile is None and dev_file is not None and not stored.table_only:
        split, outputs = read(dev_file)
        profile = fit_profile(outputs, measure_costs(model, backbone, split))
        if profile_out is not None:
            profile_out.mkdir(parents=True)
            profile.save(profile_out)
        report["cascade"] = summary(profile)
    split, outputs = read(dataset_file)
    reporter.start_stage("evaluate", 1)
    train = split.examples if train_file is None else read_examples(train_file, task)
    metrics, evaluated = evaluate_outputs(
        split, outputs, settings.policy, profile, train, table_only=stored.table_only
    )
    if answers is not None:
        write_answers(answers, task=task, file=dataset_file, evaluated=evaluated)
    reporter.report(1)
    return report | metrics


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


def _quantize(root: Root) -> None:
    scales = root.int8_scales()
    if scales is None:
        raise HplmError("corrupt_artifact", f"the root {root.config.name} has no int8 scales")
    root.quantize(scales)
