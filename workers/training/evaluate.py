"""How good a stored hPLM is on a labelled file, read as serving does; and what it answered to each row."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from inference.hplm.hplm import Hplm
from workers.training.datasets import read_examples
from workers.training.lower_states import LowerWay
from workers.training.precision import arithmetic
from workers.training.prepared_split import Backbone, decoded, every_output, judged, prepare, scores
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks.base import Judged
from workers.training.tasks.registry import task_kind


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """Where and in what to compute; how the lower half of a text is made (see `lookup.WAYS`), and the
    tolerance of "auto" (None: the usual one)."""

    device: str = "auto"
    precision: str = "auto"
    lower_mode: LowerWay = "fallback"
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
        ways=[settings.lower_mode],
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


FORMAT: Final = 1
FILE: Final = "answers.json"
MAX_ROWS: Final = 20_000
"""Of a larger file so many rows are drawn."""
SEED: Final = 0
"""Always the same: every version is asked about the same rows of a file."""
_DIGITS: Final = 4


def write_answers(
    folder: Path, *, task: str, file: Path, judged: Sequence[Judged], most: int = MAX_ROWS
) -> None:
    """Write `answers.json` into a new folder; judged: one for each row of `file`, in their order."""
    starts = list(_row_starts(file))
    # Who read the rows skipped the same lines, so this would be our own mistake.
    assert len(starts) == len(judged), f"{len(judged)} answers to {len(starts)} rows"
    chosen = _drawn(len(judged), most)
    rows = [judged[at] for at in chosen]
    document = {
        "format": FORMAT,
        "task": task,
        "rows": len(judged),
        "row": [at + 1 for at in chosen],
        "at": [starts[at] for at in chosen],
        "gold": [one.gold for one in rows],
        "answer": [one.answer for one in rows],
        "right": [one.right for one in rows],
        "score": [None if one.score is None else round(one.score, _DIGITS) for one in rows],
    }
    folder.mkdir(parents=True)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    (folder / FILE).write_text(text, encoding="utf-8")


def _drawn(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    drawn = np.random.default_rng(SEED).choice(count, size=most, replace=False)
    return sorted(int(at) for at in drawn)


def _row_starts(file: Path) -> Iterator[int]:
    at = 0
    with file.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield at
            at += len(line)
