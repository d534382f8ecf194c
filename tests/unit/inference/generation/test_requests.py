"""Requests are checked before they wait: what is out of range is named."""

import math
from typing import Any

import pytest

from inference.errors import HplmError
from inference.generation.limits import GenerationLimits
from inference.generation.requests import MAX_LOGPROBS, GenerationError, SamplingParams
from tests.unit.inference.generation.worlds import a_request


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", math.nan),
        ("top_k", -1),
        ("top_p", 0.0),
        ("min_p", 1.1),
        ("repetition_penalty", math.inf),
        ("presence_penalty", -2.1),
        ("frequency_penalty", 2.1),
        ("seed", -1),
        ("stop_tokens", frozenset({-1})),
        ("logprobs", MAX_LOGPROBS + 1),
    ],
)
def test_a_parameter_out_of_range_is_named(name: str, value: Any) -> None:
    with pytest.raises(HplmError, match=f"invalid_field: {name} must be"):
        SamplingParams(**{"max_tokens": 1} | {name: value})


def test_the_bounds_of_parameters_are_allowed() -> None:
    SamplingParams(max_tokens=1, temperature=0.0, top_p=1.0, min_p=1.0, logprobs=0)
    SamplingParams(max_tokens=1, temperature=2.0, presence_penalty=-2.0, logprobs=MAX_LOGPROBS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": ()}, "at least one token"),
        ({"prompt": (1, -2)}, "0 or more"),
        ({"max_tokens": 2, "completion": (4, 5)}, "has all 2 tokens"),
        ({"deadline": math.nan}, "finite"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HplmError, match=message):
        a_request("r", **changes)


@pytest.mark.parametrize(("context", "blocks", "where"), [(16, 9, "context"), (40, 4, "key-value cache")])
def test_what_can_never_fit_is_known_beforehand(context: int, blocks: int, where: str) -> None:
    limits = GenerationLimits(context=context, vocabulary=50, blocks=blocks, block_size=4)
    limits.check_fits(prompt_tokens=10, max_tokens=6)
    with pytest.raises(HplmError, match=f"max_tokens is 7; in the {where} 6 of 16 tokens are left"):
        limits.check_fits(prompt_tokens=10, max_tokens=7)
    with pytest.raises(HplmError, match="the prompt has 16 tokens"):
        limits.check_fits(prompt_tokens=16, max_tokens=1)


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    limits = GenerationLimits(context=16, vocabulary=50, blocks=4)
    limits.check_tokens([0, 49])
    with pytest.raises(HplmError, match="token id 50"):
        limits.check_tokens([0, 50])


def test_each_sequence_of_a_step_has_a_token() -> None:
    with pytest.raises(ValueError, match="step_tokens 7"):
        GenerationLimits(context=16, vocabulary=50, blocks=4, sequences=8, step_tokens=7)


def test_users_are_told_details_of_expected_errors_only() -> None:
    expected = GenerationError.of(HplmError("corrupt_artifact", "the adapter is damaged"))
    assert expected == GenerationError("corrupt_artifact", "the adapter is damaged")
    unexpected = GenerationError.of(RuntimeError("/srv/secret: no such file"))
    assert unexpected == GenerationError("inference_failed", "the model could not be computed")
