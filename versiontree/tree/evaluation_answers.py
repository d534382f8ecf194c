"""Read, filter and compare the stored answers of evaluations.

``workers.training.evaluation_answers`` writes them. The files never change, so reading them is cached.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tenants.datasets.models import GENERATIVE_TASKS, Task
from versiontree.artifact_store import ArtifactDamaged

FILE_NAME: Final = "answers.json"
FORMAT: Final = 1
CACHE_SIZE: Final = 8
WITHOUT_LABELS: Final = GENERATIVE_TASKS | {Task.QUESTION_ANSWERING, Task.REGRESSION}


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """The answer to one row, counted from 1. ``at`` is the row's byte offset in the evaluated file.

    ``gold`` and ``answer`` are a label, a list of labels, a number, or spans as [label, first word, word
    after the last]. For question answering ``gold`` is a list of texts and ``answer`` one. ``score`` is the
    confidence, 0 to 1.

    A generated ``answer`` has the closest reference as ``gold`` and its ROUGE-L as ``score``; ``right`` is
    None, as for a number.
    """

    row: int
    at: int
    gold: Any
    answer: Any
    right: bool | None
    score: float | None


@dataclass(frozen=True, slots=True)
class EvaluationAnswers:
    """The stored answers, perhaps a sample; ``rows`` is the number of evaluated rows."""

    task: str
    rows: int
    answered: tuple[RowAnswer, ...]

    @property
    def sampled(self) -> bool:
        """Whether only a part of the answers is stored."""
        return self.rows > len(self.answered)


class ChangeKind(StrEnum):
    """How the answer to a row changed between two versions. For numbers: whether the error is smaller; for
    generated texts: whether ROUGE-L is higher."""

    FIXED = "fixed"
    BROKEN = "broken"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A row that two versions answered differently."""

    change: ChangeKind
    before: RowAnswer
    after: RowAnswer


@lru_cache(maxsize=CACHE_SIZE)
def answers_read(folder: Path) -> EvaluationAnswers:
    """Read the answers of an artifact. Raises ``ArtifactDamaged`` if they are missing or unreadable."""
    try:
        found = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}")
        columns = (found[name] for name in ("row", "at", "gold", "answer", "right", "score"))
        rows = tuple(RowAnswer(*values) for values in zip(*columns, strict=True))
        return EvaluationAnswers(found["task"], found["rows"], rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactDamaged(f"The answers {folder.name[:12]} cannot be read: {error}.") from error


def answers_filter(
    answers: EvaluationAnswers, *, wrong: bool = False, gold: str = "", predicted: str = ""
) -> list[RowAnswer]:
    """The answers with this expected and this predicted label, in order of their rows.

    ``wrong`` selects wrong answers, the most confident first; for numbers all, the largest error first; for
    generated texts all, the lowest ROUGE-L first.
    """
    found = [
        one
        for one in answers.answered
        if not (wrong and one.right)
        and (not gold or gold in labels_in(one.gold))
        and (not predicted or predicted in labels_in(one.answer))
    ]
    return sorted(found, key=_error_key) if wrong else found


def labels_in(answer: Any) -> set[str]:
    """The labels in an expected or predicted answer. Empty for a number."""
    if isinstance(answer, str):
        return {answer}
    if isinstance(answer, list):
        return {one[0] if isinstance(one, list) else one for one in answer}
    return set()


def answer_labels(answers: EvaluationAnswers) -> list[str]:
    """All expected or predicted labels, sorted. Empty for tasks without labels."""
    if answers.task in WITHOUT_LABELS:
        return []
    return sorted(
        {label for one in answers.answered for side in (one.gold, one.answer) for label in labels_in(side)}
    )


def answers_compare(before: EvaluationAnswers, after: EvaluationAnswers) -> list[AnswerChange]:
    """The rows that two versions answered differently, the most confident new answers first."""
    earlier = {one.row: one for one in before.answered}
    found = list(_changes(earlier, after.answered))
    return sorted(found, key=lambda one: _error_key(one.after))


def mcnemar(fixed: int, broken: int) -> float:
    """The two-sided p-value of McNemar's exact test for this many fixed and broken rows."""
    count, fewer = fixed + broken, min(fixed, broken)
    ways = term = 1
    for taken in range(1, fewer + 1):
        term = term * (count - taken + 1) // taken
        ways += term
    return min(1.0, 2 * ways / (1 << count))


def _changes(earlier: dict[int, RowAnswer], later: Sequence[RowAnswer]) -> Iterator[AnswerChange]:
    for after in later:
        before = earlier.get(after.row)
        if before is not None and before.answer != after.answer:
            yield AnswerChange(_change(before, after), before, after)


def _change(before: RowAnswer, after: RowAnswer) -> ChangeKind:
    was, now = _correctness(before), _correctness(after)
    if was == now:
        return ChangeKind.CHANGED
    return ChangeKind.FIXED if now > was else ChangeKind.BROKEN


def _correctness(one: RowAnswer) -> float:
    return float(one.right) if one.right is not None else -_distance(one)


def _distance(one: RowAnswer) -> float:
    """The error of a number, or what a generated text lacks of a ROUGE-L of 1; 0 for other answers."""
    if isinstance(one.answer, int | float):
        return float(abs(one.gold - one.answer))
    return 0.0 if one.right is not None else 1.0 - (one.score or 0.0)


def _error_key(one: RowAnswer) -> tuple[float, float, int]:
    return -_distance(one), -(one.score or 0.0), one.row
