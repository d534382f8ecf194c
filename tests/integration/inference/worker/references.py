"""Comparing thousands of answers with the plain reference."""

import numpy as np
from numpy.typing import NDArray

from inference.queueing.messages import InferReply, InferRequest, TokenSequence
from tests.integration.inference.worker.asking import assert_outputs, expected_outputs
from tests.unit.tiny_world import TinyHplm, TinyWorld


class References:
    """What every model of a world says alone, in plain PyTorch; each computed once."""

    def __init__(self, world: TinyWorld) -> None:
        self._world = world
        self._hplms = {hplm.digest: hplm for hplm in world.hplms}
        self._known: dict[tuple[str, TokenSequence], NDArray[np.float32]] = {}

    def expected(self, hplm: TinyHplm, sequence: TokenSequence) -> NDArray[np.float32]:
        """The outputs for one sequence, flat."""
        key = (hplm.digest, sequence)
        if key not in self._known:
            self._known[key] = expected_outputs(self._world, hplm, sequence)
        return self._known[key]

    def assert_right(self, request: InferRequest, reply: InferReply) -> None:
        """The reply names the version and digest that were asked for, and says what that model says alone."""
        hplm = self._hplms[request.digest]
        assert_outputs(request, reply, [self.expected(hplm, each) for each in request.sequences])
