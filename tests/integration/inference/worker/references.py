"""Comparing thousands of answers with the plain reference."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from inference.queueing.messages import InferInput, InferReply, InferRequest, ModelRef
from inference.serving.reading import read
from tests.integration.inference.worker.asking import prediction
from tests.unit.tiny_world import TinyHplm, TinyWorld

Place = tuple[str | int, ...]


class References:
    """What every model of a world says alone, in plain PyTorch; each computed once."""

    def __init__(self, world: TinyWorld) -> None:
        self._world = world
        self._hplms = {hplm.digest: hplm for hplm in world.hplms}
        self._known: dict[tuple[str, InferInput], Any] = {}

    def expected(self, hplm: TinyHplm, given: InferInput) -> Any:
        """The JSON value of the result of one input."""
        key = (hplm.digest, given)
        if key not in self._known:
            (reading,) = read([given], self._world.root.tokenizer, task=hplm.model.task)
            result = {**prediction(self._world, hplm, reading).to_json(), "truncated": reading.truncated}
            self._known[key] = json.loads(json.dumps(result))
        return self._known[key]

    def assert_right(self, request: InferRequest, reply: InferReply) -> None:
        """The reply names the version and digest that were asked for, and says what that model says alone."""
        assert reply.ok, reply.error
        assert reply.model == ModelRef(request.tenant, request.hplm, request.version, request.digest)
        hplm = self._hplms[request.digest]
        expected = [self.expected(hplm, given) for given in request.inputs]
        found, wanted = dict(_leaves(list(reply.results))), dict(_leaves(expected))
        assert found.keys() == wanted.keys()
        for place, value in wanted.items():
            close = pytest.approx(value, rel=1e-4, abs=1e-3) if isinstance(value, float) else value
            assert found[place] == close, f"{place} of {request.hplm}"


def _leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Everything in a JSON value that holds nothing else, and where it stands."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*place, name))
    else:
        yield place, value
