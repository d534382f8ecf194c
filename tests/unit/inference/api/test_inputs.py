"""The inputs that a model takes: a text, two texts, or a question and its context."""

from typing import Any

import pytest

from inference.api.validation import check_inputs, fit_inputs
from inference.text.encodings import InferInput
from tenants.base.errors import HmiError

TEXT, PAIR = {"text": "a"}, {"text": "a", "text_pair": "b"}
QUESTION = {"question": "q", "context": "c"}
SINGLE, PAIRED, ANSWERING = ("classification", False), ("regression", True), ("question_answering", True)


def fitted(value: object, task: str, pairs: bool) -> tuple[InferInput, ...]:
    return fit_inputs(check_inputs([value]), task=task, pairs=pairs)


@pytest.mark.parametrize(
    ("value", "model", "expected"),
    [
        ("a", SINGLE, InferInput("a")),
        (TEXT, SINGLE, InferInput("a")),
        (PAIR, PAIRED, InferInput("a", "b")),
        (QUESTION, ANSWERING, InferInput("q", "c")),
    ],
)
def test_input_of_the_task_is_taken(value: object, model: tuple[str, bool], expected: InferInput) -> None:
    assert fitted(value, *model) == (expected,)


@pytest.mark.parametrize(
    ("value", "model", "code", "param"),
    [
        ("a", PAIRED, "missing_field", "inputs[0].text_pair"),
        (TEXT, PAIRED, "missing_field", "inputs[0].text_pair"),
        (PAIR, SINGLE, "invalid_field", "inputs[0].text_pair"),
        (QUESTION, SINGLE, "invalid_field", "inputs[0].question"),
        (QUESTION, PAIRED, "invalid_field", "inputs[0].question"),
        ("a", ANSWERING, "invalid_field", "inputs[0].text"),
        (PAIR, ANSWERING, "invalid_field", "inputs[0].text"),
        ({"question": "q"}, ANSWERING, "missing_field", "inputs[0].context"),
        ({"context": "c"}, ANSWERING, "missing_field", "inputs[0].question"),
    ],
)
def test_input_of_another_task_is_refused_at_its_field(
    value: object, model: tuple[str, bool], code: str, param: str
) -> None:
    with pytest.raises(HmiError) as refusal:
        fitted(value, *model)
    assert (refusal.value.code, refusal.value.param) == (code, param)


@pytest.mark.parametrize(
    ("value", "code", "param"),
    [
        ({}, "missing_field", "inputs[0].text"),
        ({"text_pair": "b"}, "missing_field", "inputs[0].text"),
        ({"text": "a", "label": "b"}, "invalid_field", "inputs[0].label"),
        ({"question": "q", "text": "b"}, "invalid_field", "inputs[0].text"),
        ({"text": "a", "text_pair": " "}, "empty_text", "inputs[0].text_pair"),
        ({"text": 3}, "invalid_field", "inputs[0].text"),
        ({"question": "q", "context": None}, "invalid_field", "inputs[0].context"),
        ({"question": "q\0", "context": "c"}, "invalid_encoding", "inputs[0].question"),
        ({"text": "a", "text_pair": "\ud83d"}, "invalid_encoding", "inputs[0].text_pair"),
        ({"question": "q", "context": "x" * (2 * 1024**2 + 1)}, "body_too_large", "inputs[0].context"),
    ],
)
def test_input_of_no_known_form_is_refused_at_its_field(value: Any, code: str, param: str) -> None:
    with pytest.raises(HmiError) as refusal:
        check_inputs([value])
    assert (refusal.value.code, refusal.value.param) == (code, param)
