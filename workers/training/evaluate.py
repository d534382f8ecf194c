"""How good a stored hPLM is on a labelled file, looked up as serving does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.hplm.hplm import Hplm
from workers.training.datasets import read_examples
from workers.training.precision import arithmetic
from workers.training.prepared import Backbone, predict, prepare, scores
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """Where and in what to compute."""

    device: str = "auto"
    precision: str = "auto"


def evaluate(
    *,
    root: Path,
    plots: list[Path],
    hplm: Path,
    dataset_file: Path,
    task: str,
    reporter: Reporter,
    train_file: Path | None = None,
    settings: EvaluateSettings | None = None,
) -> dict[str, Any]:
    """{metric, value, majority_baseline, rows, per_label, truncated_share, plot_hits, …} of an hPLM on a
    file.

    plots: folders of the tables to look up, nearest first, the root's last. train_file: what the trivial
    answers are learnt on; without it they are learnt on the evaluated file itself, which flatters them.
    """
    settings = settings or EvaluateSettings()
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=0)
    backbone = Backbone.open(root, plots, computing)
    stored = Hplm.load(hplm, computing.device)
    examples = read_examples(dataset_file, task)
    baseline_from = examples if train_file is None else read_examples(train_file, task)
    model = TaskModel(stored.adapter, stored.head).to(computing.device)
    split = prepare(examples, task, backbone, reporter)
    reporter.stage("evaluate", 1)
    predicted = predict(model, backbone, split, stored.labels, reporter)
    reporter.advance(1)
    return scores(split, predicted, task, baseline_from)
