"""A row goes on to the level FULL by what it was answered, what the tables had of it, and its text's hash."""

from dataclasses import replace
from math import inf

import pytest

from inference.cascade.confidence import confidence
from inference.cascade.dispatcher import Dispatcher, Level
from inference.engine.executor import Executor
from inference.engine.rows import Row
from inference.text.tasks import OUTPUT_KINDS
from tests.unit.inference.engine.worlds import EngineWorld, answered

TEXT = "the river zebra quixotic stone"
LOW, HIGH = bytes(8), b"\xff" * 8
"""Hashes whose draws are the least and the greatest."""


@pytest.fixture(scope="module")
def executor(shared_world: EngineWorld) -> Executor:
    return shared_world.executor()


def row(
    world: EngineWorld, number: int, *, cutoff: float, text_hash: bytes = LOW, slope: float = 10.0
) -> Row:
    """Of any task."""
    plain = world.row(number, TEXT)
    dispatcher = Dispatcher(OUTPUT_KINDS[world.hplm(plain).task], cutoff=cutoff, slope=slope)
    return replace(plain, dispatcher=dispatcher, text_hash=text_hash)


def test_every_task_goes_on_below_the_cutoff(executor: Executor, shared_world: EngineWorld) -> None:
    unsure = answered(executor, *(row(shared_world, n, cutoff=1 - 1e-9, text_hash=HIGH) for n in range(10)))
    assert all(answer.escalates for answer in unsure)


def test_who_is_surer_than_the_cutoff_goes_on_by_the_draw(
    executor: Executor, shared_world: EngineWorld
) -> None:
    of_labels = [n for n in range(10) if shared_world.hplm(shared_world.row(n, TEXT)).task != "regression"]
    for text_hash, expected in ((LOW, True), (HIGH, False)):
        found = answered(
            executor, *(row(shared_world, n, cutoff=-1.0, text_hash=text_hash) for n in of_labels)
        )
        assert {answer.escalates for answer in found} == {expected}


def test_coverage_counts_where_it_was_learnt_to(executor: Executor, shared_world: EngineWorld) -> None:
    plain = row(shared_world, 0, cutoff=0.5, text_hash=HIGH)
    assert plain.dispatcher is not None
    for weight, expected in ((100.0, True), (-100.0, False)):
        learnt = replace(plain.dispatcher, coefficients=(0.0, 0.0, 0.0, weight))
        [answer] = answered(executor, replace(plain, dispatcher=learnt))
        assert answer.coverage.unigram > 0
        assert answer.escalates is expected


def test_without_a_dispatcher_and_at_the_level_full_nothing_goes_on(
    executor: Executor, shared_world: EngineWorld
) -> None:
    asked = row(shared_world, 0, cutoff=1 - 1e-9)
    config = shared_world.tiny.root.config
    rows = [replace(asked, dispatcher=None), replace(asked, level=Level.FULL), asked.escalated(config)]
    assert not any(answer.escalates for answer in answered(executor, *rows))


def test_a_row_that_went_on_is_the_same_text_in_full_and_counts_as_its_layers(
    executor: Executor, shared_world: EngineWorld
) -> None:
    asked, config = row(shared_world, 1, cutoff=0.99), shared_world.tiny.root.config
    further = asked.escalated(config)
    assert (further.level, further.dispatcher, further.key) == (Level.FULL, None, asked.key)
    assert further.work == -(-len(asked) * config.layers // config.upper) > asked.work == len(asked)
    [answer] = answered(executor, further)
    [expected] = answered(executor, shared_world.row(1, TEXT, Level.FULL))
    assert answer.logits.tobytes() == expected.logits.tobytes()


def test_company_does_not_change_who_goes_on(executor: Executor, shared_world: EngineWorld) -> None:
    """The cutoff lies halfway between the confidences of two texts."""
    texts = ["the river stone", "zebra quixotic light of the city"]
    plain = [shared_world.row(0, text) for text in texts]
    kind = OUTPUT_KINDS[shared_world.hplm(plain[0]).task]
    sure = [confidence(kind, answer.logits) or -inf for answer in answered(executor, *plain)]
    dispatcher = Dispatcher(kind, cutoff=sum(sure) / 2, slope=0.0)
    rows = [replace(each, dispatcher=dispatcher, text_hash=HIGH) for each in plain]
    alone = [answered(executor, each)[0].escalates for each in rows]
    assert sorted(alone) == [False, True]
    company = [shared_world.row(n, "a good winter", Level(1 + n % 2)) for n in range(10)]
    together = answered(executor, *company, *rows)[-2:]
    assert [answer.escalates for answer in together] == alone
