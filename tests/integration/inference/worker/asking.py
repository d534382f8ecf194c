"""Requests for a tiny world, and what their answers should be."""

import time
import uuid
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from inference.hplm.predictions import Prediction, predict
from inference.hplm.reference import reference_outputs
from inference.queueing.messages import InferInput, InferReply, InferRequest, ModelRef
from inference.serving.reading import Reading, read
from tests.integration.inference.queueing.requests import STREAM, depth
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny_world import TinyHplm, TinyWorld

CONTEXT = "the doctor of a poor patient in the city by the river"


def request_for(
    hplm: TinyHplm, *texts: str, seconds: float = 60.0, miss_policy: str = "fallback"
) -> InferRequest:
    """One input for each text; where the model takes pairs, with the same second text."""
    now = time.time()
    pair = CONTEXT if hplm.model.pairs else None
    return InferRequest(
        id=uuid.uuid4().hex,
        tenant=hplm.tenant,
        hplm=hplm.hplm,
        version=hplm.version,
        digest=hplm.digest,
        root=hplm.root,
        inputs=tuple(InferInput(text, pair) for text in texts),
        miss_policy=miss_policy,
        deadline=now + seconds,
        enqueued_at=now,
        reply_to=STREAM,
    )


def stop_at_work(worker: InferenceWorker, give: Callable[[], None]) -> None:
    """SIGSTOP the worker at a moment when it holds requests that it has not answered, and others wait. It is
    given more whenever it has answered all: nobody can say how long that takes."""

    def stopped() -> bool:
        if not depth(worker.redis):
            give()
        if not worker.pending():
            return False
        worker.pause()
        if 0 < worker.pending() < depth(worker.redis):
            return True
        worker.resume()
        return False

    wait_until(stopped, worker)


def assert_right(world: TinyWorld, request: InferRequest, reply: InferReply) -> None:
    """The reply is what the reference says, and names the version that was asked for."""
    assert reply.ok, reply.error
    assert reply.model == ModelRef(request.tenant, request.hplm, request.version, request.digest)
    hplm = next(hplm for hplm in world.hplms if hplm.digest == request.digest)
    assert len(reply.results) == len(request.inputs)
    for given, result in zip(request.inputs, reply.results, strict=True):
        (reading,) = read([given], world.root.tokenizer, task=hplm.model.task)
        expected = prediction(world, hplm, reading).to_json()
        assert_close({key: value for key, value in result.items() if key != "truncated"}, expected)
        assert result["truncated"] == reading.truncated
    assert reply.usage.inputs == len(request.inputs)
    assert sum(asdict(reply.plot).values()) == reply.usage.tokens


def prediction(world: TinyWorld, hplm: TinyHplm, reading: Reading) -> Prediction:
    """What the reference says about one input, window by window."""
    chain, model, given = world.chain(hplm), hplm.model, reading.given
    outputs = [reference_outputs(world.root, chain, model, one.ids, one.types) for one in reading.encodings]
    return predict(
        model.task,
        model.labels,
        outputs,
        reading.encodings,
        given.text,
        given.text_pair,
        threshold=model.threshold,
    )


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
