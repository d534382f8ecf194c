"""Messages survive the trip, and nothing else is taken for one."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.queueing.messages import (
    MISS_POLICIES,
    VERSION,
    BatchInfo,
    InferInput,
    InferReply,
    InferRequest,
    MessageError,
    ModelRef,
    PlotCounts,
    TimingsMs,
    Usage,
)
from tests.integration.inference.queueing.requests import a_request


def _stays(text: str) -> bool:
    """JSON reads two halves of a surrogate pair, one behind the other, as the character that they make."""
    return text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


texts = st.text(st.characters(exclude_categories=()), max_size=20).filter(_stays)
models = st.builds(ModelRef, tenant=texts, hplm=texts, version=st.integers(1, 9), digest=texts)
numbers = st.floats(0, 1e12)
counts = st.integers(0, 10**9)
inputs = st.builds(InferInput, text=texts, text_pair=texts | st.none())
requests = st.builds(
    InferRequest,
    id=texts,
    tenant=texts,
    hplm=texts,
    version=st.integers(1, 9),
    digest=texts,
    inputs=st.lists(inputs, min_size=1, max_size=4).map(tuple),
    deadline=numbers,
    enqueued_at=numbers,
    reply_to=texts,
    miss_policy=st.sampled_from([None, *MISS_POLICIES]),
    explain=st.booleans(),
    embed=st.booleans(),
    v=st.just(VERSION),
)
replies = st.builds(
    InferReply,
    id=texts,
    ok=st.just(True),
    model=models,
    results=st.lists(st.fixed_dictionaries({"label": texts, "scores": st.dictionaries(texts, numbers)})).map(
        tuple
    ),
    usage=st.builds(Usage, counts, counts, counts),
    timings_ms=st.builds(TimingsMs, numbers, numbers, numbers, numbers, numbers),
    plot=st.builds(PlotCounts, counts, counts, counts, counts, counts),
    batch=st.builds(BatchInfo, counts, counts),
    error=st.none(),
    v=st.just(VERSION),
)


@given(requests)
def test_a_request_survives_the_trip(request: InferRequest) -> None:
    assert InferRequest.from_json(request.to_json()) == request


@given(replies)
def test_a_reply_survives_the_trip(reply: InferReply) -> None:
    assert InferReply.from_json(reply.to_json()) == reply


def test_a_failure_survives_the_trip() -> None:
    reply = InferReply.failure("r1", a_request("r1").model, "deadline_exceeded", "too late")
    assert InferReply.from_json(reply.to_json()) == reply


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(asdict(a_request("r1")))), json_values)
def test_a_request_with_one_field_replaced_is_read_or_refused(name: str, value: object) -> None:
    data = {**asdict(a_request("r1")), name: value}
    try:
        InferRequest.from_json(json.dumps(data).encode())
    except MessageError as error:
        assert error.request_id in ("r1", "", value)  # noqa: PT017 - both outcomes are right


@given(st.binary(max_size=50))
def test_other_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(MessageError):
        InferRequest.from_json(payload)


@pytest.mark.parametrize("name", sorted(asdict(a_request("r1"))))
def test_a_missing_field_is_named(name: str) -> None:
    data = asdict(a_request("r1"))
    del data[name]
    with pytest.raises(MessageError, match=f"{name} is missing"):
        InferRequest.from_json(json.dumps(data).encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", True),
        ("version", 1.5),
        ("deadline", "soon"),
        ("deadline", 10**400),
        ("inputs", "text"),
        ("inputs", []),
        ("inputs", [1]),
        ("inputs", ["text"]),
        ("inputs", [{"text": "x"}]),
        ("inputs", [{"text": "x", "text_pair": 1}]),
        ("miss_policy", 1),
        ("explain", 1),
        ("v", 1),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    data = {**asdict(a_request("r1")), name: value}
    with pytest.raises(MessageError) as refusal:
        InferRequest.from_json(json.dumps(data).encode())
    assert refusal.value.request_id == "r1"


def test_a_number_that_is_not_finite_is_refused() -> None:
    payload = a_request("r1").to_json().replace(b'"deadline":', b'"deadline":NaN,"was":')
    with pytest.raises(MessageError, match="NaN"):
        InferRequest.from_json(payload)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(MessageError):
        InferRequest.from_json(b"[" * 100_000)
