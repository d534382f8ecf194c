"""Labelled datasets in canonical form: JSON lines, one file per split."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.errors import HplmError
from inference.text.tasks import CLASSIFICATION, MULTILABEL, QUESTION_ANSWERING, REGRESSION, TAGGING

OUTSIDE = "O"


@dataclass(frozen=True)
class DatasetFiles:
    """One file per split."""

    train: Path
    dev: Path
    test: Path


@dataclass(frozen=True)
class SpanAnswer:
    """A span of a context: its text and the character it starts at."""

    text: str
    start: int


@dataclass(frozen=True)
class Example:
    """One row.

    text, pair: the text or texts (question answering: question and context). words: for tagging, instead.
    labels: the class, all labels of a multi-label row, or a tag for each word. value: for regression.
    answers: for question answering; empty where the context holds none.
    """

    text: str = ""
    pair: str | None = None
    words: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    value: float = 0.0
    answers: tuple[SpanAnswer, ...] = ()


def read_examples(path: Path, task: str) -> list[Example]:
    """Read one split. Raises HplmError: "malformed_row" with the row's number, "too_few_rows" if empty."""
    examples = list(_examples(path, task))
    if not examples:
        raise HplmError("too_few_rows", f"{path.name} holds no example.")
    return examples


def _examples(path: Path, task: str) -> Iterator[Example]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _READERS[task](json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise HplmError("malformed_row", f"Row {number} of {path.name}: {error}.") from error


def _pair(row: dict[str, Any]) -> str | None:
    return None if row.get("text_pair") is None else str(row["text_pair"])


def _classification(row: dict[str, Any]) -> Example:
    return Example(str(row["text"]), _pair(row), labels=(str(row["label"]),))


def _multilabel(row: dict[str, Any]) -> Example:
    labels = row["labels"]
    if not isinstance(labels, list):
        raise TypeError("labels must be a list")
    return Example(str(row["text"]), _pair(row), labels=tuple(map(str, labels)))


def _regression(row: dict[str, Any]) -> Example:
    return Example(str(row["text"]), _pair(row), value=float(row["value"]))


def _tagging(row: dict[str, Any]) -> Example:
    words, tags = row["tokens"], row["tags"]
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        raise ValueError("tokens and tags must be lists of the same length")
    return Example(words=tuple(map(str, words)), labels=tuple(map(str, tags)))


def _question(row: dict[str, Any]) -> Example:
    context = str(row["context"])
    answers = tuple(SpanAnswer(str(answer["text"]), int(answer["start"])) for answer in row["answers"])
    for answer in answers:
        if context[answer.start : answer.start + len(answer.text)] != answer.text:
            raise ValueError(f"the context does not hold {answer.text[:40]!r} at {answer.start}")
    return Example(str(row["question"]), context, answers=answers)


_READERS = {
    CLASSIFICATION: _classification,
    MULTILABEL: _multilabel,
    REGRESSION: _regression,
    TAGGING: _tagging,
    QUESTION_ANSWERING: _question,
}
