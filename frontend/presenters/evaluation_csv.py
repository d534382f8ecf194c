"""The answers of evaluations as rows of CSV files."""

from collections.abc import Iterable, Iterator
from typing import Any

from frontend.presenters.evaluation_answers import TEXTS, Row, conversation, in_words
from tenants.datasets.models import GENERATIVE_TASKS
from versiontree.tree.evaluation_answers import AnswerChange, RowAnswer


def csv_columns(task: str) -> tuple[str, ...]:
    """Return the columns of `csv_rows`."""
    return ("row", *TEXTS, "expected", "answered", _score_column(task), "right")


def changed_csv_columns(task: str) -> tuple[str, ...]:
    """Return the columns of `changed_csv_rows`."""
    scores = (f"{_score_column(task)} {when}" for when in ("before", "after"))
    return ("row", *TEXTS, "expected", "before", "after", "change", *scores)


def _score_column(task: str) -> str:
    return "ROUGE-L" if task in GENERATIVE_TASKS else "confidence"


def csv_rows(task: str, answered: Iterable[RowAnswer], rows: Iterable[Row | None]) -> Iterator[list[object]]:
    """Yield the CSV rows of one version, with the columns of `csv_columns`."""
    for one, row in zip(answered, rows, strict=True):
        yield [
            one.row,
            *_cells(row),
            *(_csv_value(task, side) for side in (one.gold, one.answer)),
            one.score,
            one.right,
        ]


def changed_csv_rows(
    task: str, changed: Iterable[AnswerChange], rows: Iterable[Row | None]
) -> Iterator[list[object]]:
    """Yield the CSV rows of two versions, with the columns of `changed_csv_columns`."""
    for one, row in zip(changed, rows, strict=True):
        sides = (one.after.gold, one.before.answer, one.after.answer)
        yield [
            one.after.row,
            *_cells(row),
            *(_csv_value(task, side) for side in sides),
            one.change.value,
            one.before.score,
            one.after.score,
        ]


def _cells(row: Row | None) -> list[str]:
    found = dict(row or {})
    found.setdefault("text", " ".join(found.get("tokens", [])))
    found.setdefault("prompt", "\n".join(conversation(found)))
    return [str(found.get(name) or "") for name in TEXTS]


def _csv_value(task: str, answer: Any) -> object:
    """Return the answer as the value of a CSV cell."""
    return answer if isinstance(answer, int | float) else " | ".join(in_words(task, answer))
