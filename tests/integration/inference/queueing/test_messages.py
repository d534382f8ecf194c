"""Messages survive the trip, and nothing else is taken for one."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from msgspec.structs import fields, replace

from inference.cascade.dispatcher import OUTPUT_KINDS, Dispatcher, Level
from inference.cascade.platt_scaling import PlattScaling
from inference.generation.requests import MAX_SEED, FinishReason, SamplingParams
from inference.queueing.messages import (
    BatchInfo,
    CompletionEnd,
    GeneratedToken,
    InferReply,
    InferRequest,
    MessageError,
    ModelRef,
    PlotCounts,
    SequenceOutput,
    TimingsMs,
    TokenSequence,
)
from tests.integration.inference.queueing.requests import a_completion_request, a_request

REQUIRED = [field.name for field in fields(InferRequest) if field.required]


def fields_of(request: InferRequest) -> dict[str, Any]:
    """As they are sent."""
    found: dict[str, Any] = msgpack.decode(request.encode())
    return found


texts = st.text(max_size=20)
models = st.builds(ModelRef, tenant=texts, hplm=texts, version=st.integers(1, 9), digest=texts)
numbers = st.floats(0, 1e12)
counts = st.integers(0, 10**9)


@st.composite
def sequences(draw: st.DrawFn) -> TokenSequence:
    """Of any length, with types and positions or without."""
    length = draw(st.integers(1, 9))
    types = draw(st.sampled_from([b"", bytes(length)]))
    positions = st.lists(st.integers(0, length - 1), max_size=4).map(lambda at: np.array(at, "<i4").tobytes())
    return TokenSequence(
        draw(st.binary(min_size=4 * length, max_size=4 * length)),
        types,
        draw(st.none() | positions),
        draw(st.sampled_from([b"", b"8 bytes."])),
    )


shares = st.floats(0, 1)
dispatchers = st.builds(
    Dispatcher,
    st.sampled_from(OUTPUT_KINDS),
    st.floats(0.1, 10),
    shares,
    st.floats(0, 0.99),
    st.floats(1, 100),
    st.just(()) | st.tuples(numbers, numbers, numbers, numbers),
    st.builds(PlattScaling, st.floats(-1e6, 1e6), st.floats(0, 1e6)),
)
requests = st.builds(
    InferRequest,
    id=texts,
    tenant=texts,
    hplm=texts,
    version=st.integers(1, 9),
    digest=texts,
    root=texts,
    sequences=st.lists(sequences(), min_size=1, max_size=4).map(tuple),
    deadline=numbers,
    enqueued_at=numbers,
    reply_to=texts,
    level=st.sampled_from(Level),
    dispatcher=st.none() | dispatchers,
    explain=st.booleans(),
    embed=st.booleans(),
)
replies = st.builds(
    InferReply,
    id=texts,
    ok=st.just(True),
    model=models,
    outputs=st.lists(
        st.builds(
            SequenceOutput,
            st.binary(max_size=40),
            st.binary(max_size=9),
            st.sampled_from(Level),
            st.binary(max_size=40),
        )
    ).map(tuple),
    timings_ms=st.builds(TimingsMs, numbers, numbers, numbers, numbers, numbers),
    plot=st.builds(PlotCounts, counts, counts, counts),
    batch=st.builds(BatchInfo, counts, counts),
    completion=st.none() | st.builds(CompletionEnd, st.sampled_from(FinishReason), counts),
) | st.builds(InferReply.failure, texts, models, texts, texts)


samplings = st.builds(
    SamplingParams,
    max_tokens=st.integers(1, 10**6),
    temperature=st.floats(0, 2),
    top_k=st.integers(0, 100),
    top_p=st.floats(0.01, 1),
    presence_penalty=st.floats(-2, 2),
    seed=st.integers(0, MAX_SEED),
    stop_tokens=st.frozensets(st.integers(0, 10**6), max_size=4),
    logprobs=st.none() | st.integers(0, 20),
)
generated = st.builds(
    GeneratedToken,
    index=counts,
    token=counts,
    logprob=st.none() | st.floats(max_value=0),
    alternatives=st.lists(st.tuples(counts, st.floats(max_value=0)), max_size=3).map(tuple),
)


@given(samplings)
def test_a_request_for_a_completion_survives_the_trip(sampling: SamplingParams) -> None:
    request = replace(a_completion_request("r1"), generate=sampling)
    assert InferRequest.decode(request.encode()) == request


@given(generated)
def test_a_token_survives_the_trip(token: GeneratedToken) -> None:
    assert GeneratedToken.decode(token.encode()) == token


@given(st.binary(max_size=50))
def test_other_bytes_are_no_token(payload: bytes) -> None:
    with pytest.raises(MessageError):
        GeneratedToken.decode(payload)


@pytest.mark.parametrize("sampling", [{}, {"max_tokens": 0}, {"max_tokens": 1, "temperature": math.nan}])
def test_a_sampling_that_is_not_valid_is_refused(sampling: object) -> None:
    data = {**fields_of(a_request("r1")), "generate": sampling}
    with pytest.raises(MessageError) as refusal:
        InferRequest.decode(msgpack.encode(data))
    assert refusal.value.request_id == "r1"


def test_a_completion_has_one_prompt() -> None:
    data = fields_of(a_completion_request("r1"))
    with pytest.raises(MessageError, match="one prompt"):
        InferRequest.decode(msgpack.encode({**data, "sequences": data["sequences"] * 2}))


@given(requests)
def test_a_request_survives_the_trip(request: InferRequest) -> None:
    assert InferRequest.decode(request.encode()) == request


@given(replies)
def test_a_reply_survives_the_trip(reply: InferReply) -> None:
    assert InferReply.decode(reply.encode()) == reply


def test_a_sequence_without_a_text_hash_is_read() -> None:
    data = fields_of(a_request("r1"))
    data["sequences"] = [sequence[:3] for sequence in data["sequences"]]
    assert InferRequest.decode(msgpack.encode(data)).sequences[0].text_hash == b""
    data["sequences"] = [[*sequence, b"short"] for sequence in data["sequences"]]
    with pytest.raises(MessageError, match="8 bytes"):
        InferRequest.decode(msgpack.encode(data))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | texts
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(fields_of(a_request("r1")))), values)
def test_a_request_with_one_field_replaced_is_read_or_refused(name: str, value: object) -> None:
    data = {**fields_of(a_request("r1")), name: value}
    try:
        InferRequest.decode(msgpack.encode(data))
    except MessageError as error:
        assert error.request_id in ("r1", "", value)  # noqa: PT017 - both outcomes are right


@given(st.binary(max_size=50))
def test_other_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(MessageError):
        InferRequest.decode(payload)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_field_is_named(name: str) -> None:
    data = fields_of(a_request("r1"))
    del data[name]
    with pytest.raises(MessageError, match=name):
        InferRequest.decode(msgpack.encode(data))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", True),
        ("deadline", math.nan),
        ("enqueued_at", math.inf),
        ("sequences", []),
        ("sequences", [[b""]]),
        ("sequences", [[b"ids"]]),
        ("sequences", [[b"1234", b"12"]]),
        ("sequences", [[b"1234", b"", b"1"]]),
        ("level", 0),
        ("dispatcher", {"kind": "guess"}),
        ("dispatcher", {"kind": "tokens", "platt": {"slope": "steep"}}),
        ("explain", 1),
        ("v", 1),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    data = {**fields_of(a_request("r1")), name: value}
    with pytest.raises(MessageError) as refusal:
        InferRequest.decode(msgpack.encode(data))
    assert refusal.value.request_id == "r1"


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(MessageError):
        InferRequest.decode(b"\x91" * 100_000)
