"""A step that finds no memory on the device."""

import weakref

import pytest
import torch

from inference.generation.step import Outcome, Step
from inference.serving.decoders import FreeingRunner


class FullDevice:
    """A runner whose device has memory once it was freed so often."""

    def __init__(self, frees: int) -> None:
        self.freed = self.runs = 0
        self._frees = frees
        self._computed: list[weakref.ref[torch.Tensor]] = []

    def free(self) -> None:
        assert not [left for left in self._computed if left() is not None]
        self.freed += 1

    def run(self, step: Step) -> list[Outcome]:
        self.runs += 1
        states = torch.zeros(3)
        self._computed.append(weakref.ref(states))
        if self.freed < self._frees:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return []


def test_a_step_without_memory_drops_what_it_computed_frees_memory_and_is_tried_again() -> None:
    device = FullDevice(frees=1)
    assert FreeingRunner(device, device.free).run(Step(())) == []
    assert (device.runs, device.freed) == (2, 1)


def test_a_step_that_finds_no_memory_again_fails_for_the_engine_to_bisect() -> None:
    device = FullDevice(frees=9)
    with pytest.raises(torch.OutOfMemoryError):
        FreeingRunner(device, device.free).run(Step(()))
    assert (device.runs, device.freed) == (2, 1)
