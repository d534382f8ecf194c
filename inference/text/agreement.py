"""Whether two results of one input are the same answer, however sure each is."""

from collections.abc import Mapping
from typing import Any

from inference.text.tasks import Task

Result = Mapping[str, Any]


def same_answer(task: Task, one: Result, other: Result, *, within: float = 0.0) -> bool:
    """Whether both results, as JSON, answer the same. within: numbers that differ by no more are the same."""
    match task:
        case "regression":
            return bool(abs(one["value"] - other["value"]) <= within)
        case "multilabel":
            return set(one["labels"]) == set(other["labels"])
        case "tagging":
            return _spans(one) == _spans(other)
        case "question_answering":
            return (one["start"], one["end"]) == (other["start"], other["end"])
        case _:
            return bool(one["label"] == other["label"])


def _spans(result: Result) -> list[tuple[int, int, str]]:
    return [(span["start"], span["end"], span["label"]) for span in result["spans"]]
