"""Validation of infer requests: an error names the field and says what it takes."""

import math
from typing import Any

import msgspec
import pytest
from pytest_django import Settings

from inference.api import validation
from inference.api.validation import FIELDS, WRONG_TYPE, default_policy, parse_call
from inference.cascade.dispatcher import AnswerPolicy
from tenants.base.errors import HmiError

CALL: dict[str, Any] = {"model": "mood", "inputs": ["a"]}


@pytest.mark.parametrize("field", FIELDS[1:])
@pytest.mark.parametrize("value", ["\ud800", "$.model`", {"$.model": 1}], ids=["surrogate", "path", "object"])
def test_value_of_another_type_is_refused_at_its_field(field: str, value: object) -> None:
    with pytest.raises(HmiError) as refusal:
        parse_call({**CALL, field: value})
    assert (refusal.value.param, refusal.value.message) == (field, WRONG_TYPE[field])


SURROGATE = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")


@pytest.mark.parametrize("error", [ValueError("no path"), SURROGATE], ids=["value", "surrogate"])
def test_error_without_a_field_is_an_invalid_body(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """msgspec reports a ValueError of the constructor as a ValidationError without a path."""

    def check(_: object) -> None:
        raise error

    monkeypatch.setattr(validation, "check_inputs", check)
    with pytest.raises(HmiError) as refusal:
        parse_call(CALL)
    assert (refusal.value.code, refusal.value.param) == ("invalid_field", None)


def test_surrogate_in_no_field_is_an_invalid_body(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(*_: object) -> None:
        raise SURROGATE

    monkeypatch.setattr(msgspec, "convert", convert)
    with pytest.raises(HmiError) as refusal:
        parse_call(CALL)
    assert (refusal.value.code, refusal.value.param) == ("invalid_field", None)


@pytest.mark.parametrize(
    ("field", "value"),
    [("timeout_s", 0), ("timeout_s", -1e300), ("timeout_s", math.nan), ("target", -0.1), ("target", 1.1)],
)
def test_number_out_of_bounds_is_refused_at_its_field(field: str, value: float) -> None:
    with pytest.raises(HmiError) as refusal:
        parse_call({**CALL, field: value})
    assert (refusal.value.param, refusal.value.message) == (field, WRONG_TYPE[field])


@pytest.mark.parametrize("header", ["inf", "nan", "soon"])
def test_timeout_header_that_is_no_number_of_seconds_is_refused(header: str) -> None:
    with pytest.raises(HmiError) as refusal:
        parse_call(CALL, timeout_header=header)
    assert refusal.value.param == "timeout_s"


def test_timeout_is_at_most_that_of_the_deployment() -> None:
    assert parse_call({**CALL, "timeout_s": 1e300}).seconds == parse_call(CALL).seconds
    assert parse_call(CALL, timeout_header="0.5").seconds == 0.5
    assert parse_call({**CALL, "timeout_s": 1}, timeout_header="0.5").seconds == 1


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (None, "invalid_field", None),
        ({"model": "mood"}, "missing_field", "inputs"),
        ({"inputs": ["x"]}, "missing_field", "model"),
        ({"model": 7, "inputs": ["x"]}, "invalid_field", "model"),
        ({"model": "", "inputs": ["x"]}, "invalid_field", "model"),
        ({"model": "m" * 10_000, "inputs": ["x"]}, "invalid_field", "model"),
        ({"model": "mood", "inputs": "x"}, "invalid_field", "inputs"),
        ({"model": "mood", "inputs": []}, "invalid_field", "inputs"),
        ({"model": "mood", "inputs": ["x", 3]}, "invalid_field", "inputs[1]"),
        ({"model": "mood", "inputs": ["x", ""]}, "empty_text", "inputs[1]"),
        ({"model": "mood", "inputs": ["x"] * 257}, "too_many_inputs", "inputs"),
        ({"model": "mood", "inputs": ["é" * (1024**2 + 1)]}, "body_too_large", "inputs[0]"),
        ({"model": "mood", "inputs": ["x"], "timeout": 3}, "invalid_field", "timeout"),
        ({"model": "mood", "inputs": ["x"], "timeout_s": -1}, "invalid_field", "timeout_s"),
        ({"model": "mood", "inputs": ["x"], "quality": "best"}, "invalid_field", "quality"),
        ({"model": "mood", "inputs": ["x"], "target": 1.1}, "invalid_field", "target"),
        ({"model": "mood", "inputs": ["x"], "quality": "fast", "target": 0.9}, "invalid_field", "target"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_invalid_body_is_refused_at_its_field(body: object, code: str, param: str | None) -> None:
    with pytest.raises(HmiError) as refusal:
        parse_call(body)
    assert (refusal.value.code, refusal.value.param) == (code, param)


@pytest.mark.parametrize("deployment", list(AnswerPolicy))
@pytest.mark.parametrize("version", ["", *AnswerPolicy])
def test_policy_of_the_version_precedes_that_of_the_deployment(
    deployment: AnswerPolicy, version: str, settings: Settings
) -> None:
    settings.HMI_POLICY = deployment.value
    assert default_policy(version) == (version or deployment)


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({}, None),
        ({"quality": "fast"}, AnswerPolicy.TABLE),
        ({"quality": "balanced", "target": 0.9}, AnswerPolicy.CASCADE),
        ({"quality": "exact"}, AnswerPolicy.FULL),
        ({"target": 0.9}, AnswerPolicy.CASCADE),
    ],
)
def test_quality_and_target_choose_the_policy(fields: dict[str, Any], policy: AnswerPolicy | None) -> None:
    assert parse_call({**CALL, **fields}).policy is policy
