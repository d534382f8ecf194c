"""Stages that run ahead: the same answers, whatever overlaps; and nothing that fails ahead is lost."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining, Swapping
from inference.engine.rows import Answered, Failed
from inference.engine.trace import STAGES
from tests.unit.inference.engine.chrome_traces import lanes_of
from tests.unit.inference.engine.worlds import EngineWorld, damaged

MODES = [
    *(Pipelining(retrieval, swapping) for retrieval in (False, True) for swapping in Swapping),
    *(Pipelining(swapping=swapping, parallel_batches=2) for swapping in Swapping),
]


@pytest.fixture(params=MODES, ids=str)
def pipeline(request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    made = Pipeline(request.param)
    yield made
    made.close()


def test_whatever_overlaps_every_row_agrees_with_its_hplm_run_alone(
    shared_world: EngineWorld, pipeline: Pipeline
) -> None:
    executor = shared_world.executor(pipeline=pipeline)
    flights = []
    for number in range(6):
        rows = [shared_world.row((number + k) % 10, f"the river {'stone ' * k}") for k in range(1 + number)]
        flights.append(executor.begin(rows))
    for flight in flights:
        outcomes = executor.finish(flight)
        assert [outcome.row for outcome in outcomes] == flight.rows
        assert max(shared_world.differences(outcomes)) < 1e-4
    executor.pool.check_integrity()


def test_what_fails_ahead_fails_its_own_rows_in_their_turn(world: EngineWorld, pipeline: Pipeline) -> None:
    world.replaced[world.tiny.hplms[4].digest] = damaged()
    rows = [world.row(number, "the river") for number in (1, 4, 2, 3)]
    rows[2] = dataclasses.replace(rows[2], chain="unknown")
    executor = world.executor(pipeline=pipeline)
    good = executor.begin([world.row(5, "the stone")])
    bad = executor.begin(rows)
    assert isinstance(executor.finish(good)[0], Answered)
    assert [isinstance(outcome, Failed) for outcome in executor.finish(bad)] == [False, True, True, False]
    executor.pool.check_integrity()


def test_a_layer_that_cannot_be_brought_fails_its_batch_and_is_tried_again(
    world: EngineWorld, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inference.hplm.pets.batch import SegmentPets

    load, failures = SegmentPets.load, iter([MemoryError("no room")])

    def once_without_room(self: SegmentPets, index: int) -> Any:
        for error in failures if index == 1 else ():
            raise error
        return load(self, index)

    monkeypatch.setattr(SegmentPets, "load", once_without_room)
    outcomes = world.executor(pipeline=pipeline).step([world.row(n, "the river") for n in range(3)])
    assert max(world.differences(outcomes)) < 1e-4


def test_the_trace_shows_every_stage_of_every_batch_in_its_lane(
    shared_world: EngineWorld, pipeline: Pipeline
) -> None:
    executor = shared_world.executor(pipeline=pipeline)
    for number in range(3):
        executor.step([shared_world.row(number, "the river")])
    spans = pipeline.trace.spans()
    assert {(span.stage, span.batch) for span in spans} == {(stage, n) for stage in STAGES for n in (1, 2, 3)}
    assert all(span.start <= span.end for span in spans)
    layers = shared_world.tiny.root.config.upper
    assert sum(span.name.startswith("layer") for span in spans) == 3 * layers
    lanes_of(json.dumps(pipeline.trace.chrome()), process="inference worker")
