"""Write the answers of an evaluation, row by row. ``versiontree.tree.evaluation_answers`` reads them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from workers.training.tasks.base import EvaluatedRow

FORMAT: Final = 1
FILE: Final = "answers.json"
MAX_ROWS: Final = 20_000
"""A larger file is sampled down to this many rows."""
SEED: Final = 0
"""Constant, so that all versions keep the same rows of a file."""
_DIGITS: Final = 4


def write_answers(
    folder: Path,
    *,
    task: str,
    file: Path,
    evaluated: Sequence[EvaluatedRow | None],
    max_rows: int = MAX_ROWS,
) -> None:
    """Write `answers.json` into a new folder. evaluated: one for each row of `file`, in order; None for a row
    that was not answered."""
    starts = list(_row_starts(file))
    # Readers of datasets skip the same empty lines; a difference is a bug.
    assert len(starts) == len(evaluated), f"{len(evaluated)} answers to {len(starts)} rows"
    answered = [(index, one) for index, one in enumerate(evaluated) if one is not None]
    sample = [answered[place] for place in _sample(len(answered), max_rows)]
    rows = [one for _, one in sample]
    document = {
        "format": FORMAT,
        "task": task,
        "rows": len(evaluated),
        "row": [index + 1 for index, _ in sample],
        "at": [starts[index] for index, _ in sample],
        "gold": [one.gold for one in rows],
        "answer": [one.answer for one in rows],
        "right": [one.right for one in rows],
        "score": [None if one.score is None else round(one.score, _DIGITS) for one in rows],
    }
    folder.mkdir(parents=True)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    (folder / FILE).write_text(text, encoding="utf-8")


def _sample(count: int, max_rows: int) -> list[int]:
    if count <= max_rows:
        return list(range(count))
    drawn = np.random.default_rng(SEED).choice(count, size=max_rows, replace=False)
    return sorted(int(index) for index in drawn)


def _row_starts(file: Path) -> Iterator[int]:
    offset = 0
    with file.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield offset
            offset += len(line)
