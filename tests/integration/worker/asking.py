"""Requests for a tiny world, and what their answers should be."""

import time
import uuid
from dataclasses import asdict
from typing import Any

from inference.hplm.reference import predict_alone
from inference.queueing.messages import InferInput, InferReply, InferRequest, ModelRef
from tests.integration.queueing.requests import STREAM
from tests.unit.tiny import TinyHplm, TinyWorld


def request_for(hplm: TinyHplm, *texts: str, seconds: float = 60.0) -> InferRequest:
    now = time.time()
    return InferRequest(
        id=uuid.uuid4().hex,
        tenant=hplm.tenant,
        hplm=hplm.hplm,
        version=hplm.version,
        digest=hplm.digest,
        inputs=tuple(InferInput(text) for text in texts),
        miss_policy="fallback",
        deadline=now + seconds,
        enqueued_at=now,
        reply_to=STREAM,
    )


def assert_right(world: TinyWorld, request: InferRequest, reply: InferReply) -> None:
    """The reply is what the reference says, and names the version that was asked for."""
    assert reply.ok, reply.error
    assert reply.model == ModelRef(request.tenant, request.hplm, request.version, request.digest)
    hplm = next(hplm for hplm in world.hplms if hplm.digest == request.digest)
    assert len(reply.results) == len(request.inputs)
    for text, result in zip((given.text for given in request.inputs), reply.results, strict=True):
        expected = predict_alone(world.root, world.chain(hplm), hplm.model, text).to_json()
        assert_close({key: value for key, value in result.items() if key != "truncated"}, expected)
        assert result["truncated"] == world.root.tokenizer.encode(text).truncated
    assert reply.usage.inputs == len(request.inputs)
    assert sum(asdict(reply.plot).values()) == reply.usage.tokens


def assert_close(found: Any, expected: Any) -> None:
    """Equal, but for the last digits of numbers."""
    if isinstance(expected, float):
        assert abs(found - expected) < 1e-3
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == expected
