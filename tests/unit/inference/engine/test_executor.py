"""One step of the engine: who fails, who does not, and what is told about each row."""

import dataclasses
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inference.engine.executor import Executor
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import SYNCHRONISED, Pipelining
from inference.engine.rows import Answered, Failed, Row
from inference.errors import DeviceLostError, HplmError
from tests.unit.inference.engine.worlds import EngineWorld, damaged
from tests.unit.tiny import tiny_hplm, tiny_root


def test_numbers_that_are_not_finite_fail_their_own_rows_alone(world: EngineWorld) -> None:
    model = world.tiny.hplms[0].model
    huge = {name: value * 1e30 for name, value in model.pet.weights.items()}
    wild = dataclasses.replace(model, pet=dataclasses.replace(model.pet, weights=huge))
    world.replaced[world.tiny.hplms[0].digest] = wild
    rows = [world.row(number, "the river") for number in (1, 0, 2, 0, 3)]
    outcomes = world.executor().step(rows)
    assert [isinstance(outcome, Failed) for outcome in outcomes] == [False, True, False, True, False]
    assert max(world.differences([o for o in outcomes if isinstance(o, Answered)])) < 1e-4


@pytest.mark.parametrize("error", [damaged(), OSError("gone"), ZeroDivisionError()])
def test_an_hplm_that_cannot_be_loaded_fails_its_own_rows_alone(world: EngineWorld, error: Exception) -> None:
    world.replaced[world.tiny.hplms[4].digest] = error
    executor = world.executor()
    outcomes = executor.step([world.row(number, "the river") for number in (4, 5, 4)])
    assert [getattr(outcome, "code", None) for outcome in outcomes] == [
        "inference_failed",
        None,
        "inference_failed",
    ]
    executor.pool.check_integrity()


def test_an_hplm_of_another_shape_fails_alone(world: EngineWorld, tmp_path: Path) -> None:
    other = tiny_root(tmp_path, hidden=16)
    world.replaced[world.tiny.hplms[2].digest] = tiny_hplm(other)
    executor = world.executor()
    outcomes = executor.step([world.row(number, "the river") for number in (1, 2)])
    answered, refused = outcomes
    assert isinstance(answered, Answered)
    assert isinstance(refused, Failed)
    assert "shape" in refused.message
    executor.pool.check_integrity()


def test_a_row_that_breaks_the_whole_batch_fails_alone(world: EngineWorld) -> None:
    rows = [world.row(number % 10, f"river {number}") for number in range(9)]
    rows[3] = dataclasses.replace(rows[3], ids=np.array([10**6], dtype=np.int64))
    rows[7] = dataclasses.replace(rows[7], chain="unknown")
    outcomes = world.executor().step(rows)
    assert [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Failed)] == [3, 7]
    assert max(world.differences([o for o in outcomes if isinstance(o, Answered)])) < 1e-4


def test_a_lost_device_is_no_row_s_fault(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = world.executor()

    def refuse(*_: Any) -> Any:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(executor, "_compute", refuse)
    with pytest.raises(DeviceLostError, match="device-side assert"):
        executor.step([world.row(number, "the river") for number in range(4)])


class FullDevice:
    """Memory for batches of so many rows, or for any once it was freed so often. Watches what failed attempts
    had computed."""

    def __init__(self, executor: Executor, *, rows: int, frees: int) -> None:
        self.freed = 0
        self.sizes: list[int] = []
        self._rows, self._frees = rows, frees
        self._compute = executor._compute
        self._computed: list[weakref.ref[torch.Tensor]] = []

    def free(self) -> None:
        assert not [left for left in self._computed if left() is not None]
        self.freed += 1

    def compute(self, rows: list[Row], *arguments: Any) -> Any:
        assert not [left for left in self._computed if left() is not None]
        self.sizes.append(len(rows))
        states = torch.zeros(3)
        if len(rows) > self._rows and self.freed < self._frees:
            self._computed.append(weakref.ref(states))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self._compute(rows, *arguments)


@pytest.mark.parametrize(
    ("rows", "frees", "sizes"),
    [(4, 9, [4]), (0, 1, [4, 4]), (1, 9, [4, 4, 2, 1, 1, 2, 1, 1])],
)
@pytest.mark.parametrize("pipelining", [SYNCHRONISED, Pipelining()])
def test_a_batch_without_memory_frees_it_and_is_tried_again_before_it_is_halved(
    world: EngineWorld,
    monkeypatch: pytest.MonkeyPatch,
    pipelining: Pipelining,
    rows: int,
    frees: int,
    sizes: list[int],
) -> None:
    with closing(Pipeline(pipelining)) as pipeline:
        executor = world.executor(pipeline=pipeline)
        device = FullDevice(executor, rows=rows, frees=frees)
        monkeypatch.setattr(executor, "_compute", device.compute)
        monkeypatch.setattr(executor, "_free_memory", device.free)
        outcomes = executor.step([world.row(number, "the river") for number in range(4)])
    assert max(world.differences(outcomes)) < 1e-4
    assert (device.sizes, device.freed) == (sizes, int(rows < 4))
    executor.pool.check_integrity()


def test_a_device_that_is_lost_while_a_model_is_loaded_is_no_model_s_fault(world: EngineWorld) -> None:
    lost = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    world.replaced[world.tiny.hplms[4].digest] = lost
    with pytest.raises(DeviceLostError, match="illegal memory access"):
        world.executor().step([world.row(number, "the river") for number in (4, 5)])


@pytest.mark.parametrize(("other", "fillings"), [(1, 0), (0, 1), (1, 1)])
def test_a_slot_that_changed_hands_is_never_used(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, other: int, fillings: int
) -> None:
    """As if another thread had refilled the slot while the batch was computed."""
    executor = world.executor()
    compute = executor._compute

    def steal_then_compute(*arguments: Any) -> Any:
        slot = executor.pool._slots[world.tiny.hplms[0].digest]
        slot.digest = world.tiny.hplms[other].digest
        slot.generation += fillings
        return compute(*arguments)

    monkeypatch.setattr(executor, "_compute", steal_then_compute)
    [outcome] = executor.step([world.row(0, "the river")])
    assert isinstance(outcome, Failed)
    assert executor.counters.slot_mismatches == 1


def test_each_row_is_told_its_share_of_the_step(world: EngineWorld) -> None:
    outcomes = world.executor().step([world.row(0, "the"), world.row(2, "the river stone light summer")])
    short, long = (outcome for outcome in outcomes if isinstance(outcome, Answered))
    assert (short.batch_rows, short.batch_tenants) == (2, 2)
    assert min(dataclasses.astuple(long.seconds)) > 0
    assert long.seconds.compute / short.seconds.compute == pytest.approx(len(long.row) / len(short.row))


def test_a_root_that_computes_nonsense_is_noticed_before_it_serves(world: EngineWorld) -> None:
    executor = world.executor()
    executor.warm_up(2, 10_000)
    with torch.no_grad():
        next(executor.root.upper.parameters()).fill_(float("nan"))
    with pytest.raises(HplmError, match="finite"):
        executor.warm_up(2, 8)
