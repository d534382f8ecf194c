"""Splits: what they share with each other, and making those that were not given."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.census import MOST_ROWS_NAMED, Census

LEAK_LIMIT = 0.01
"""The share of a split's rows that may also stand in an earlier split."""

FEWEST_TEXTS = 10
"""How many differing texts there must be to take dev or test from."""

PLACE_IN_TEN = {"test": 4, "dev": 7}
"""Of each ten texts in a row, which one goes to the split: a tenth each, and neither is the first."""


def leakage(censuses: Mapping[str, Census]) -> list[dict[str, Any]]:
    """For each pair of splits that share texts: how many rows of the later one stand in the earlier, too,
    how many of them with the same answer, and the numbers of the first of them.
    """
    found = []
    for (earlier, one), (later, other) in combinations(censuses.items(), 2):
        shared = [(mark, text) for mark, text in other.texts.items() if mark in one.texts]
        if shared:
            rows = sum(text.rows for _, text in shared)
            same = sum(text.rows for mark, text in shared if text.answer == one.texts[mark].answer)
            found.append(
                {
                    "from": earlier,
                    "to": later,
                    "rows": rows,
                    "share": round(rows / other.rows, 6),
                    "same_answer": same,
                    "first_rows": sorted(text.row for _, text in shared)[:MOST_ROWS_NAMED],
                }
            )
    return found


def refuse_leakage(leaks: Sequence[Mapping[str, Any]]) -> None:
    """Raise ``leaking_splits`` when some pair shares more than the limit."""
    for leak in leaks:
        if leak["share"] > LEAK_LIMIT:
            raise HmiError(
                ErrorCode.LEAKING_SPLITS,
                f"{leak['rows']} rows of {leak['to']} ({leak['share']:.1%}) stand in {leak['from']}, too,"
                " but for letter case, spacing and punctuation; measures on them would flatter."
                f" The first are rows {', '.join(map(str, leak['first_rows']))} of {leak['to']}."
                f" At most {LEAK_LIMIT:.0%} may: remove them from {leak['from']}, or allow leaks"
                " (allow_leaks) if the data is published like this; whoever reads its measures is then told.",
                param="files",
                details={"leaks": [dict(leak) for leak in leaks], "limit": LEAK_LIMIT},
            )


def unseen_labels(censuses: Mapping[str, Census]) -> list[dict[str, Any]]:
    """Labels of dev and test that train lacks: whatever a model answers there counts as wrong."""
    train = censuses["train"].labels
    return [
        {"split": split, "label": label, "rows": named.rows, "first_rows": named.first}
        for split, census in censuses.items()
        for label, named in sorted(census.label_rows.items())
        if split != "train" and label not in train
    ]


def carve(train: Census, wanted: Sequence[str]) -> dict[int, str]:
    """Choose the texts of train that move to the wanted splits, a tenth to each: fingerprint -> split.

    Texts go by the order of label and hash: the choice is the same every time, follows the frequencies of
    the labels, keeps duplicates together, and leaves each label's first text in train. Raises
    ``too_few_rows``.
    """
    marks = sorted(train.texts, key=lambda mark: (train.texts[mark].label, mark))
    chosen: dict[int, str] = {}
    due: list[str] = []
    before: str | None = None
    for index, mark in enumerate(marks):
        due += [split for split in wanted if PLACE_IN_TEN[split] == index % 10]
        label = train.texts[mark].label
        if due and label == before:
            chosen[mark] = due.pop(0)
        before = label
    missing = set(wanted) - set(chosen.values())
    if len(marks) < FEWEST_TEXTS or missing:
        raise HmiError(
            ErrorCode.TOO_FEW_ROWS,
            f"{len(marks)} differing texts are too few to take {' and '.join(wanted)} from: it needs at least"
            f" {FEWEST_TEXTS}, and several of each label. Add rows, or give these splits.",
            param="files",
            details={"texts": len(marks), "labels": len(train.labels), "needed": FEWEST_TEXTS},
        )
    return chosen
