"""Requests for a tiny world, and what their answers should be."""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from inference.api.prepared_request import outputs_of, token_sequences
from inference.cascade.dispatcher import Dispatcher, Level
from inference.hplm.lower_states import full_states
from inference.queueing.messages import InferReply, InferRequest, ModelRef, TokenSequence
from inference.text.encodings import InferInput
from tests.integration.inference.queueing.requests import STREAM, depth
from tests.processes import InferenceWorker, wait_until
from tests.reference_hplm import outputs_from_states, reference_outputs
from tests.unit.tiny_world import TinyHplm, TinyWorld

CONTEXT = "the doctor of a poor patient in the city by the river"
LONG_S = 600.0
"""Longer than a busy machine takes for anything: tests of deadlines have their own."""


def of_tenant(world: TinyWorld, tenant: str) -> TinyHplm:
    """The tenant's first model."""
    return next(hplm for hplm in world.hplms if hplm.tenant == tenant)


def under_root(world: TinyWorld) -> TinyHplm:
    """A model that has the tables of the root alone."""
    return next(hplm for hplm in world.hplms if len(hplm.plots) == 1)


def of_domain(world: TinyWorld) -> TinyHplm:
    """A model with the tables of a domain before those of the root."""
    return next(hplm for hplm in world.hplms if len(hplm.plots) == 2)


def code_of(reply: InferReply) -> str:
    """The code of its error, "ok" without one."""
    return reply.error.code if reply.error else "ok"


def inputs_for(hplm: TinyHplm, *texts: str) -> list[InferInput]:
    """One input for each text; where the model takes pairs, with the same second text."""
    return [InferInput(text, CONTEXT if hplm.model.pairs else None) for text in texts]


def request_of(
    hplm: TinyHplm,
    inputs: Sequence[InferInput],
    *,
    seconds: float = LONG_S,
    level: Level = Level.TABLE,
    dispatcher: Dispatcher | None = None,
) -> InferRequest:
    """What the edge sends for these inputs."""
    now = time.time()
    return InferRequest(
        id=uuid.uuid4().hex,
        tenant=hplm.tenant,
        hplm=hplm.hplm,
        version=hplm.version,
        digest=hplm.digest,
        root=hplm.root,
        sequences=token_sequences(hplm.codec.encode(inputs), task=hplm.codec.task),
        level=level,
        dispatcher=dispatcher,
        deadline=now + seconds,
        enqueued_at=now,
        reply_to=STREAM,
    )


def request_for(
    hplm: TinyHplm,
    *texts: str,
    seconds: float = LONG_S,
    level: Level = Level.TABLE,
    dispatcher: Dispatcher | None = None,
) -> InferRequest:
    """As `request_of`, of `inputs_for`."""
    inputs = inputs_for(hplm, *texts)
    return request_of(hplm, inputs, seconds=seconds, level=level, dispatcher=dispatcher)


def results_in(hplm: TinyHplm, inputs: Sequence[InferInput], reply: InferReply) -> list[dict[str, Any]]:
    """What the edge makes of a reply to these inputs."""
    return hplm.codec.results(hplm.codec.encode(inputs), outputs_of(reply.outputs))


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
    hplm = next(hplm for hplm in world.hplms if hplm.digest == request.digest)
    assert_outputs(request, reply, [expected_outputs(world, hplm, each) for each in request.sequences])
    assert sum(astuple(reply.plot)) == request.tokens


def assert_outputs(request: InferRequest, reply: InferReply, expected: list[NDArray[np.float32]]) -> None:
    """The reply has these outputs, and names the version that was asked for."""
    assert reply.ok, reply.error
    assert reply.model == ModelRef(request.tenant, request.hplm, request.version, request.digest)
    for found, wanted in zip(outputs_of(reply.outputs), expected, strict=True):
        np.testing.assert_allclose(found.values, wanted, rtol=1e-3, atol=2e-3, err_msg=request.hplm)


def expected_outputs(
    world: TinyWorld, hplm: TinyHplm, sequence: TokenSequence, level: Level = Level.TABLE
) -> NDArray[np.float32]:
    """What the reference says about one sequence at the level, flat."""
    ids = np.frombuffer(sequence.ids, "<i4").astype(np.int64)
    types = np.frombuffer(sequence.types, np.uint8).astype(np.int64) if sequence.types else np.zeros_like(ids)
    if level is Level.TABLE:
        outputs = reference_outputs(world.root, world.chain(hplm), hplm.model, ids, types)
    else:
        states = full_states(world.root.checkpoint_lower(), [ids], [types])
        outputs = outputs_from_states(world.root, hplm.model, states)
    if sequence.outputs_at is not None:
        outputs = outputs[np.frombuffer(sequence.outputs_at, "<i4")]
    return outputs.reshape(-1)
