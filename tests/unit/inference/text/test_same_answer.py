"""Whether two results are the same answer."""

from typing import Any

import pytest

from inference.text.prediction_result import same_answer
from inference.text.tasks import Task


def spans(*places: tuple[int, int, str], score: float = 0.9) -> dict[str, Any]:
    return {
        "spans": [
            {"start": start, "end": end, "label": label, "score": score} for start, end, label in places
        ]
    }


@pytest.mark.parametrize(
    ("task", "one", "other", "same"),
    [
        ("classification", {"label": "a", "scores": {"a": 0.9}}, {"label": "a", "scores": {"a": 0.6}}, True),
        ("classification", {"label": "a"}, {"label": "b"}, False),
        ("multilabel", {"labels": ["a", "b"]}, {"labels": ["b", "a"]}, True),
        ("multilabel", {"labels": ["a"]}, {"labels": []}, False),
        ("tagging", spans((0, 3, "x")), spans((0, 3, "x"), score=0.5), True),
        ("tagging", spans((0, 3, "x")), spans((0, 3, "y")), False),
        ("tagging", spans((0, 3, "x")), spans(), False),
        (
            "question_answering",
            {"start": 1, "end": 4, "score": 0.2},
            {"start": 1, "end": 4, "score": 0.9},
            True,
        ),
        ("question_answering", {"start": 1, "end": 4}, {"start": 0, "end": 4}, False),
        ("regression", {"value": 1.0}, {"value": 1.25}, True),
        ("regression", {"value": 1.0}, {"value": 0.5}, False),
    ],
)
def test_answers_are_compared_by_what_they_say(
    task: Task, one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    assert same_answer(task, one, other, within=0.25) is same
    assert same_answer(task, other, one, within=0.25) is same
