"""How good a stored hPLM is on a labelled file, read as serving does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.hplm.hplm import Hplm
from workers.training.datasets import read_examples
from workers.training.evaluation_answers import write_answers
from workers.training.lower_states import LowerWay
from workers.training.precision import arithmetic
from workers.training.prepared_split import Backbone, decoded, every_output, judged, prepare, scores
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks.registry import task_kind


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """Where and in what to compute; how the lower half of a text is made (see `lookup.WAYS`), and the
    tolerance of "auto" (None: the usual one)."""

    device: str = "auto"
    precision: str = "auto"
    lower_way: LowerWay = "fallback"
    tolerance: float | None = None


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
    settings: EvaluateSettings | None = None,
    scratch: Path | None = None,
    answers: Path | None = None,
) -> dict[str, Any]:
    """{metric, value, majority_baseline, rows, per_label, truncated_share, plot_hits, …} of an hPLM on a
    file.

    plots: folders of the tables to look up, nearest first, the root's last. lower: the local lower layers of
    the nearest version, where missing fragments are computed. train_file: what the trivial answers are learnt
    on; without it they are learnt on the evaluated file itself, which flatters them.
    scratch: on whose disk the lower half lies (None: that of temporary files). answers: a new folder for what
    was answered to each row.
    """
    settings = settings or EvaluateSettings()
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=0)
    backbone = Backbone.open(root, plots, computing, lower)
    stored = Hplm.load(hplm, computing.device)
    kind = task_kind(task)
    examples = read_examples(dataset_file, task)
    seen = examples if train_file is None else read_examples(train_file, task)
    model = TaskModel(stored.pet, stored.head).to(computing.device)
    split = prepare(
        examples,
        kind,
        backbone,
        reporter,
        ways=[settings.lower_way],
        tolerance=settings.tolerance,
        folder=scratch,
    )
    reporter.stage("evaluate", 1)
    outputs = every_output(model, backbone, split, kind, reporter)
    found = decoded(outputs, split, kind, stored.labels, stored.threshold)
    if answers is not None:
        rows = judged(outputs, found, split, kind, stored.labels)
        write_answers(answers, task=task, file=dataset_file, judged=rows)
    reporter.advance(1)
    return scores(split, found, kind, seen)
