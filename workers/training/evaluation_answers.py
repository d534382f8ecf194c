"""What an hPLM answered to each row of a file, kept beside the figures that were made of it.

One JSON file of columns, without the texts: `row` counts the rows of the evaluated file from 1 (lines without
anything on them are none), `at` is the byte that a row begins at, `gold` and `answer` are as
`TaskKind.judged` has them, `score` is how sure the hPLM was (0 to 1, null where its task knows no such
thing), `right` whether both agree (null likewise).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

FORMAT: Final = 1
FILE: Final = "answers.json"
MOST_ROWS: Final = 20_000
"""Of a larger file so many rows are drawn."""
SEED: Final = 0
"""Always the same: every version is asked about the same rows of a file."""
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Judged:
    """An expected and a given answer, both as JSON has them, and what is to be said of them."""

    gold: Any
    answer: Any
    right: bool | None
    score: float | None


def write_answers(
    folder: Path, *, task: str, file: Path, judged: Sequence[Judged], most: int = MOST_ROWS
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
