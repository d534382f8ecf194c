"""Splits of a dataset: leaks between them, and automatic dev and test splits."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.statistics import MAX_FLAGGED_ROWS, SplitStatistics

LEAK_LIMIT = 0.01
"""The largest share of a split's rows that may also be in an earlier split."""

MIN_TEXTS = 10
"""How many distinct texts train must have so that dev or test can be taken from it."""

POSITION_IN_TEN = {"test": 4, "dev": 7}
"""Which one of every ten consecutive texts goes to the split: a tenth each, and never the first."""


def find_leaks(statistics: Mapping[str, SplitStatistics]) -> list[dict[str, Any]]:
    """For each pair of splits that share texts: how many rows of the later split are in the earlier one, how
    many of these have the same answer, and the numbers of the first of them.
    """
    leaks = []
    for (earlier, one), (later, other) in combinations(statistics.items(), 2):
        shared = [(mark, text) for mark, text in other.texts.items() if mark in one.texts]
        if shared:
            rows = sum(text.rows for _, text in shared)
            same = sum(text.rows for mark, text in shared if text.answer == one.texts[mark].answer)
            leaks.append(
                {
                    "from": earlier,
                    "to": later,
                    "rows": rows,
                    "share": round(rows / other.rows, 6),
                    "same_answer": same,
                    "first_rows": sorted(text.row for _, text in shared)[:MAX_FLAGGED_ROWS],
                }
            )
    return leaks


def check_leaks(leaks: Sequence[Mapping[str, Any]]) -> None:
    """Raise ``leaking_splits`` if a pair of splits shares more rows than ``LEAK_LIMIT``."""
    for leak in leaks:
        if leak["share"] > LEAK_LIMIT:
            raise HmiError(
                ErrorCode.LEAKING_SPLITS,
                f"{leak['rows']} rows of {leak['to']} ({leak['share']:.1%}) are also in {leak['from']}, apart"
                " from letter case, spacing and punctuation, so metrics would be too optimistic."
                f" The first are rows {', '.join(map(str, leak['first_rows']))} of {leak['to']}."
                f" At most {LEAK_LIMIT:.0%} are allowed: remove them from {leak['from']}, or allow leaks"
                " (allow_leaks) if the dataset is published like this. Metrics are then marked.",
                param="files",
                details={"leaks": [dict(leak) for leak in leaks], "limit": LEAK_LIMIT},
            )


def unseen_labels(statistics: Mapping[str, SplitStatistics]) -> list[dict[str, Any]]:
    """Labels of dev and test that are not in train: a model cannot predict them."""
    train = statistics["train"].labels
    return [
        {"split": split, "label": label, "rows": named.rows, "first_rows": named.first}
        for split, stats in statistics.items()
        for label, named in sorted(stats.label_rows.items())
        if split != "train" and label not in train
    ]


def auto_split(train: SplitStatistics, splits: Sequence[str]) -> dict[int, str]:
    """Choose which texts of train go to these splits, a tenth each: fingerprint -> split.

    Deterministic: texts are sorted by label and hash. The choice is stratified by label, keeps duplicates
    together, and leaves each label's first text in train. Raises ``too_few_rows``.
    """
    marks = sorted(train.texts, key=lambda mark: (train.texts[mark].label, mark))
    chosen: dict[int, str] = {}
    due: list[str] = []
    before: str | None = None
    for index, mark in enumerate(marks):
        due += [split for split in splits if POSITION_IN_TEN[split] == index % 10]
        label = train.texts[mark].label
        if due and label == before:
            chosen[mark] = due.pop(0)
        before = label
    missing = set(splits) - set(chosen.values())
    if len(marks) < MIN_TEXTS or missing:
        raise HmiError(
            ErrorCode.TOO_FEW_ROWS,
            f"Train has {len(marks)} distinct texts, too few to take {' and '.join(splits)} from it. At least"
            f" {MIN_TEXTS} are needed, and several of each label. Add rows, or upload these splits.",
            param="files",
            details={"texts": len(marks), "labels": len(train.labels), "needed": MIN_TEXTS},
        )
    return chosen
