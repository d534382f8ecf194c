"""What each stage of the pipeline does ahead, what is waited for, and what is let go of."""

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

import pytest
import torch

from inference.engine.adapters import PackedHplm
from inference.engine.pet_pool import Lease
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining, Swapping
from inference.engine.rows import Failed, ModelIdentity
from inference.hplm.pets.batch import SegmentPets
from inference.hplm.pets.packed import PackedPet
from tests.processes import wait_until
from tests.unit.inference.engine.worlds import EngineWorld, damaged

MODES = [Pipelining(retrieval, swapping) for retrieval in (False, True) for swapping in Swapping]


@pytest.fixture(params=MODES, ids=str)
def pipeline(request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    made = Pipeline(request.param)
    yield made
    made.close()


def test_stage_that_works_ahead_begins_before_its_result_is_read(pipeline: Pipeline) -> None:
    retrieved, acquired = threading.Event(), threading.Event()
    stages = pipeline.retrieve(1, retrieved.set), pipeline.acquire(1, acquired.set)
    ahead = pipeline.pipelining.retrieval, pipeline.pipelining.swapping is not Swapping.NONE
    for begun, is_ahead, stage in zip((retrieved, acquired), ahead, stages, strict=True):
        assert begun.wait(10 if is_ahead else 0) is is_ahead
        stage.result()
        assert begun.is_set()


def test_a_stage_that_is_forgotten_holds_nothing_of_its_batch(pipeline: Pipeline) -> None:
    layers = torch.zeros(3)
    held = weakref.ref(layers)
    stage = pipeline.retrieve(1, partial(torch.clone, layers))
    stage.result()
    del layers
    assert held() is not None
    stage.forget()
    wait_until(lambda: held() is None)  # a thread may just be done with it


def test_a_layer_that_is_not_there_yet_is_waited_for(shared_world: EngineWorld) -> None:
    pets = SegmentPets.of([PackedPet.of(shared_world.tiny.hplms[0].model.pet, torch.float32)], [4])
    pipeline, busy = Pipeline(Pipelining()), threading.Event()
    feed = pipeline.feed(1, pets, 2, torch.device("cpu"))

    def bring(_: object) -> None:
        busy.wait(10)
        feed.bring()

    pipeline.acquire(1, lambda: None, bring)
    with ThreadPoolExecutor(1) as compute:
        asked = compute.submit(feed.layer, 1)
        with pytest.raises(TimeoutError):
            asked.result(0.2)
        busy.set()
        assert len(asked.result(10).pets) == 1
    pipeline.close()


def test_a_batch_that_is_given_up_holds_nothing(world: EngineWorld, pipeline: Pipeline) -> None:
    world.replaced[world.tiny.hplms[4].digest] = damaged()
    executor = world.executor(pipeline=pipeline)
    for numbers in ((0, 1), (2, 4)):
        executor.abandon(executor.begin([world.row(number, "the river") for number in numbers]))
    wait_until(lambda: pipeline.at_rest)
    executor.pool.check_integrity()


def test_giving_a_batch_up_begins_nothing_and_waits_for_nothing(
    world: EngineWorld, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, loading, go_on = world.executor(pipeline=pipeline), threading.Event(), threading.Event()
    acquire, asked = executor.pool.acquire, list[str]()

    def slowly(model: ModelIdentity) -> Lease[PackedHplm]:
        asked.append(model.hplm)
        loading.set()
        go_on.wait(10)
        return acquire(model)

    monkeypatch.setattr(executor.pool, "acquire", slowly)
    if pipeline.pipelining.retrieval:
        pipeline.retrieve(0, lambda: go_on.wait(10))
    flights = [
        executor.begin([world.row(number, "the river") for number in numbers]) for numbers in ((0, 1), (2, 3))
    ]
    ahead = pipeline.pipelining.swapping is not Swapping.NONE
    assert loading.wait(10 if ahead else 0) is ahead
    for flight in flights:
        executor.abandon(flight)
    assert pipeline.at_rest is not ahead
    go_on.set()
    wait_until(lambda: pipeline.at_rest)
    assert asked == (["model0"] if ahead else [])
    pipeline.retrieve(0, lambda: None).result()
    assert not any(span.batch for span in pipeline.trace.spans() if span.stage == "retrieval")
    executor.pool.check_integrity()


def test_a_batch_whose_pets_find_no_room_holds_nothing(
    world: EngineWorld, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: Any) -> NoReturn:
        raise MemoryError("no room")

    monkeypatch.setattr(SegmentPets, "of", no_room)
    executor = world.executor(pipeline=pipeline)
    outcomes = executor.step([world.row(number, "the river") for number in range(3)])
    assert all(isinstance(outcome, Failed) for outcome in outcomes)
    executor.pool.check_integrity()


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_threads_end_with_the_pipeline(shared_world: EngineWorld, mode: Pipelining) -> None:
    before = set(threading.enumerate())
    pipeline = Pipeline(mode)
    shared_world.executor(pipeline=pipeline).step([shared_world.row(0, "the river")])
    working = [thread for thread in threading.enumerate() if thread not in before]
    assert len(working) == mode.retrieval + (mode.swapping is not Swapping.NONE)
    pipeline.close()
    assert not any(thread.is_alive() for thread in working)
