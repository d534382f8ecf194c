"""Batches that compute side by side: each on its share of the processor, and none in another's way."""

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.engine.compute_threads import (
    MAX_PARALLEL_BATCHES,
    ComputeThreads,
    lower_priority,
    with_parallel_batches,
)
from inference.engine.executor import Executor
from inference.engine.in_flight import BatchCallbacks, GivenUpError, InFlightBatch
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import SYNCHRONISED, Pipelining, Swapping
from inference.engine.rows import Answered
from tests.processes import wait_until
from tests.unit.inference.engine.worlds import EngineWorld

WAIT_S = 30.0


@pytest.fixture
def pipeline() -> Iterator[Pipeline]:
    made = Pipeline(Pipelining(parallel_batches=2))
    yield made
    made.close()


@pytest.fixture
def threads() -> Iterator[int]:
    """Four of PyTorch's, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield 4
    torch.set_num_threads(before)


def watched(executor: Executor, monkeypatch: pytest.MonkeyPatch, inside: Any) -> None:
    """Call ``inside`` in the thread that computes, before each batch's layers."""
    compute = executor._compute

    def computing(*arguments: Any) -> Any:
        inside()
        return compute(*arguments)

    monkeypatch.setattr(executor, "_compute", computing)


def answered(executor: Executor, flight: InFlightBatch) -> bool:
    return all(isinstance(outcome, Answered) for outcome in executor.finish(flight))


def test_two_batches_compute_at_the_same_time_and_a_third_waits_for_them(
    shared_world: EngineWorld, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = shared_world.executor(pipeline=pipeline)
    together, computing, most = threading.Barrier(2), [0], [0]
    compute = executor._compute

    def counted(*arguments: Any) -> Any:
        computing[0] += 1
        most[0] = max(most[0], computing[0])
        together.wait(WAIT_S)
        found = compute(*arguments)
        together.wait(WAIT_S)
        computing[0] -= 1
        return found

    monkeypatch.setattr(executor, "_compute", counted)
    flights = [executor.begin([shared_world.row(number, "the river")]) for number in range(4)]
    assert all(answered(executor, flight) for flight in flights)
    assert most == [2]
    tracks = {span.batch: span.row for span in pipeline.trace.spans() if span.stage == "compute"}
    assert set(tracks.values()) == {"compute", "compute 2"}


def test_each_has_its_share_of_the_threads_and_nobody_else_has_less(
    shared_world: EngineWorld, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, seen = Pipeline(Pipelining(parallel_batches=2)), list[int]()
    executor = shared_world.executor(pipeline=pipeline)
    watched(executor, monkeypatch, lambda: seen.append(torch.get_num_threads()))
    for _ in range(3):
        assert answered(executor, executor.begin([shared_world.row(0, "the river")]))
    elsewhere = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    elsewhere.start()
    elsewhere.join()
    assert seen == [*[threads // 2] * 3, threads]
    assert torch.get_num_threads() == threads
    pipeline.close()


def test_one_that_is_alone_has_all_threads_and_its_successor_its_share_again(
    shared_world: EngineWorld, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, seen = Pipeline(Pipelining(parallel_batches=2)), list[int]()
    executor = shared_world.executor(pipeline=pipeline)
    watched(executor, monkeypatch, lambda: seen.append(torch.get_num_threads()))
    for alone in (True, False, True, False):
        assert answered(executor, executor.begin([shared_world.row(0, "the river")], alone=alone))
    assert seen == [threads, threads // 2] * 2
    pipeline.close()


def test_the_end_of_a_batch_is_announced_before_it_comes(
    shared_world: EngineWorld, pipeline: Pipeline
) -> None:
    executor, said, done = shared_world.executor(pipeline=pipeline), list[object](), threading.Event()

    def is_done(number: int) -> None:
        said.append(("done", number))
        done.set()

    prefetch = BatchCallbacks(prefetch=lambda number: said.append(("near its end", number)))
    flight = executor.begin([shared_world.row(0, "the river")], prefetch)
    flight.when_done(is_done)
    assert done.wait(WAIT_S)
    assert said == [("near its end", flight.number), ("done", flight.number)]
    assert answered(executor, flight)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_batch_that_nobody_wants_when_its_turn_comes_is_not_computed(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    pipeline, computed = Pipeline(Pipelining(parallel_batches=count)), list[None]()
    executor = world.executor(pipeline=pipeline)
    watched(executor, monkeypatch, lambda: computed.append(None))
    flight = executor.begin([world.row(0, "the river")], BatchCallbacks(wanted=lambda: False))
    with pytest.raises(GivenUpError):
        executor.finish(flight)
    wait_until(lambda: pipeline.at_rest)
    assert not computed
    executor.pool.check_integrity()
    pipeline.close()


def test_whoever_gives_up_what_computes_waits_for_it_and_then_nothing_is_held(
    world: EngineWorld, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, computing, go_on = world.executor(pipeline=pipeline), threading.Event(), threading.Event()

    def inside() -> None:
        computing.set()
        assert go_on.wait(WAIT_S)

    watched(executor, monkeypatch, inside)
    flight = executor.begin([world.row(0, "the river")])
    assert computing.wait(WAIT_S)
    threading.Timer(0.2, go_on.set).start()
    executor.abandon(flight)
    assert go_on.is_set()
    wait_until(lambda: pipeline.at_rest)
    executor.pool.check_integrity()


def test_a_processor_computes_a_batch_for_each_thread_and_a_device_one(threads: int) -> None:
    coarse = Pipelining(swapping=Swapping.COARSE)
    assert with_parallel_batches(coarse, torch.device("cpu")) == Pipelining(
        swapping=Swapping.COARSE, parallel_batches=threads
    )
    assert with_parallel_batches(coarse, torch.device("cuda")) == Pipelining(
        swapping=Swapping.COARSE, parallel_batches=1
    )
    assert with_parallel_batches(SYNCHRONISED, torch.device("cpu")) == SYNCHRONISED
    torch.set_num_threads(3 * MAX_PARALLEL_BATCHES)
    assert with_parallel_batches(Pipelining(), torch.device("cpu")).parallel_batches == MAX_PARALLEL_BATCHES


def test_lanes_that_are_closed_end_what_they_have_begun() -> None:
    stages, begun, go_on = ComputeThreads(2), threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return go_on.wait(WAIT_S)

    done = stages.submit(work)
    assert begun.wait(WAIT_S)
    threading.Timer(0.1, go_on.set).start()
    stages.close()
    assert done.result(0)


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_a_thread_and_its_helpers_stand_back_and_no_other_does() -> None:
    before, tasks = niceness(), {*Path("/proc/self/task").iterdir()}

    lowered = min(19, before + 1)

    def compute() -> int:
        lower_priority(1)
        torch.set_num_threads(2)
        torch.ones(2_000_000).cumsum(0).add(1.0).sum()
        return niceness()

    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(compute).result() == lowered
            started = {*Path("/proc/self/task").iterdir()} - tasks
            assert {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in started} == {lowered}
    finally:
        torch.set_num_threads(threads)
    assert niceness() == before
