"""What evaluate and fine-tune jobs report, by the product's own scorers: pages show what there really is."""

import random
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inference.text.token_levels import LEVEL_NAMES
from tests.unit.tenants.files import jsonl
from workers.training.datasets import read_examples
from workers.training.prepared_split import imbalance
from workers.training.search import FineTuneSettings
from workers.training.tasks import task_kind

TICKETS_MEASURED = {"delivery": 15, "refund": 12, "prescription": 11, "side effects": 10}
"""Rows of each label in the test split of the tickets."""
_READ = {
    "truncated_share": 0.021,
    "plot_hits": {**dict(zip(LEVEL_NAMES, (0.69, 0.16, 0.05, 0.1), strict=True)), "whole": 0.0},
}
"""How the texts were read, which no scorer says."""


def measured(task: str, rows: Sequence[dict[str, Any]], answers: Sequence[Any]) -> dict[str, Any]:
    """The report of an evaluation in which a model gave these answers to the rows of a dataset."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test.jsonl"
        path.write_text(jsonl(rows), encoding="utf-8")
        examples = read_examples(path, task)
    kind = task_kind(task)
    counts = kind.class_counts(examples)
    return {
        **kind.compute_metrics(examples, answers, examples),
        **_READ,
        "rows": len(examples),
        "class_counts": counts,
        "imbalance": imbalance(counts),
    }


def evaluation(right: int) -> dict[str, Any]:
    """That of an evaluation on 48 tickets, so many of which were answered right."""
    draw = random.Random(right)
    labels = [label for label, count in TICKETS_MEASURED.items() for _ in range(count)]
    wrong = draw.sample(range(len(labels)), len(labels) - right)
    answers = list(labels)
    for at in wrong:
        answers[at] = draw.choice([label for label in TICKETS_MEASURED if label != labels[at]])
    return measured("classification", [{"text": "", "label": label} for label in labels], answers)


def fine_tuning() -> dict[str, Any]:
    """That of a fine-tuning which tried three learning rates, the first of them the best."""
    settings = FineTuneSettings(trials=3)
    trials = [
        {"learning_rate": rate, "dev": best, "best_epoch": count - 2, "epochs": _epochs(count, best)}
        for rate, best, count in zip(settings.learning_rates, (0.921, 0.874, 0.903), (8, 8, 5), strict=True)
    ]
    told = {name: trials[0][name] for name in ("epochs", "best_epoch", "learning_rate")}
    return {**told, "trials": trials, "seed": settings.seed, "settings": asdict(settings)}


def _epochs(count: int, best: float) -> list[dict[str, float]]:
    return [{"epoch": n, "loss": 1.4 * 0.7**n + 0.1, "dev": best - 0.4 * 0.6**n} for n in range(1, count + 1)]
