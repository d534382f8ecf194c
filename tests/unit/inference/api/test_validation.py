"""Wrong types in an infer call are told at their field, whatever the value is."""

from typing import Any

import msgspec
import pytest

from inference.api import validation
from inference.api.validation import FIELDS, WRONG_TYPE, InferCall, parse_call
from tenants.base.errors import HmiError

CALL: dict[str, Any] = {"model": "mood", "inputs": ["a"]}


@pytest.mark.parametrize("field", FIELDS[1:])
@pytest.mark.parametrize("value", ["\ud800", "$.model`", {"$.model": 1}], ids=["surrogate", "path", "object"])
def test_a_value_of_another_type_is_told_at_its_field(field: str, value: object) -> None:
    with pytest.raises(HmiError) as refusal:
        parse_call({**CALL, field: value})
    assert (refusal.value.param, refusal.value.message) == (field, WRONG_TYPE[field])


SURROGATE = UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")


@pytest.mark.parametrize("error", [ValueError("no path"), SURROGATE], ids=["value", "surrogate"])
def test_an_error_without_a_field_is_an_invalid_body(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """msgspec reports a ValueError of the constructor as a ValidationError without a path."""

    def check(_: object) -> None:
        raise error

    monkeypatch.setattr(validation, "check_inputs", check)
    with pytest.raises(HmiError) as refusal:
        parse_call(CALL)
    assert (refusal.value.code, refusal.value.param) == ("invalid_field", None)


def test_a_surrogate_in_no_field_is_an_invalid_body(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(*_: object) -> None:
        raise SURROGATE

    monkeypatch.setattr(msgspec, "convert", convert)
    with pytest.raises(HmiError) as refusal:
        parse_call(CALL)
    assert (refusal.value.code, refusal.value.param) == ("invalid_field", None)


@pytest.mark.parametrize("timeout", [0, -(10**400), float("inf"), float("nan")])
def test_the_constructor_checks_values_as_the_parser_does(timeout: float) -> None:
    with pytest.raises(HmiError) as parsed:
        parse_call({**CALL, "timeout_s": timeout})
    with pytest.raises(HmiError) as made:
        InferCall(**CALL, timeout_s=timeout)
    assert parsed.value.to_json() == made.value.to_json()
    with pytest.raises(HmiError, match="at least one text"):
        InferCall(model="mood", inputs=[])


def test_a_long_timeout_is_that_of_the_deployment() -> None:
    assert parse_call({**CALL, "timeout_s": 10**400}).seconds == parse_call(CALL).seconds
    assert parse_call(CALL, timeout_header="0.5").seconds == 0.5
    assert parse_call({**CALL, "timeout_s": 1}, timeout_header="0.5").seconds == 1
