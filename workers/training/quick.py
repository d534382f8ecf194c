"""The quick version of a model: a head on what the frozen root gives, fitted in seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.cascade.dispatcher import AnswerPolicy
from workers.training.datasets import DatasetFiles
from workers.training.progress import Reporter


@dataclass(frozen=True, kw_only=True)
class QuickSettings:
    """policy: at which levels the texts of the test split are answered."""

    device: str = "auto"
    precision: str = "auto"
    policy: AnswerPolicy = AnswerPolicy.CASCADE


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
    """Fit a head on dataset.train, and the cascade on dataset.dev; write the hPLM with its cascade to `out`,
    and the answer to each row of dataset.test to the new folder `answers`.

    Returns the reports of both jobs that make a trained version, by their kinds, and of this one:
    {"fine_tune": {…}, "evaluate": {…}, "quick": {"suspects": [{"row", "label", "suggested", "confidence"}]}}.
    Raises HplmError: one_label, too_few_rows, malformed_row, invalid_field for a task without a quick
    version (`QUICK_TASKS`).
    """
    raise NotImplementedError
