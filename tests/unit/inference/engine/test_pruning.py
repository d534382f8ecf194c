"""What the upper layers compute of a text that goes on and is pruned."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from inference.cascade.dispatcher import PRUNED_KINDS, Dispatcher, Level
from inference.engine.executor import Executor
from inference.engine.rows import Answered, Row
from inference.hplm.plot_lookup import LowerLayers
from inference.text.tasks import OUTPUT_KINDS
from tests.reference_hplm import outputs_from_states
from tests.unit.inference.engine.worlds import EngineWorld, answered, scale_of, states_alone

TEXT = "the river zebra quixotic stone of a doctor in the winter city"


@pytest.fixture(scope="module")
def executor(shared_world: EngineWorld) -> Executor:
    return shared_world.executor()


def pruned_numbers(world: EngineWorld) -> list[int]:
    """The models whose texts may be pruned."""
    tasks = {n: world.hplm(world.row(n, TEXT)).task for n in range(10)}
    return [n for n, task in tasks.items() if OUTPUT_KINDS[task] in PRUNED_KINDS]


def row(world: EngineWorld, number: int, text: str = TEXT, *, pruning: float = 0.9) -> Row:
    """One that goes on."""
    plain, hplm = world.row(number, text), world.tiny.hplms[number]
    encoding = world.tiny.root.tokenizer.encode(text, text[::-1] if hplm.model.pairs else None)
    dispatcher = Dispatcher(OUTPUT_KINDS[hplm.model.task], cutoff=1 - 1e-9, pruning=pruning)
    return replace(plain, dispatcher=dispatcher, words=encoding.words)


def further(world: EngineWorld, answer: Answered) -> Row:
    """What the row is computed as next."""
    return answer.row.escalated(world.tiny.root.config, answer.kept)


def test_the_upper_layers_compute_the_kept_tokens_of_the_whole_text(
    executor: Executor, shared_world: EngineWorld
) -> None:
    """Their states at the cut are those in the whole text. Rows beside them are computed whole."""
    full = shared_world.tiny.root.checkpoint_lower()
    numbers = pruned_numbers(shared_world)
    rows = [
        further(shared_world, one) for one in answered(executor, *(row(shared_world, n) for n in numbers))
    ]
    company = [shared_world.row(n, TEXT, Level(1 + n % 2)) for n in numbers]
    together = answered(executor, *rows, *company)
    for answer in together[len(rows) :]:
        [alone] = answered(executor, answer.row)
        scale = scale_of(shared_world.hplm(answer.row).head)
        assert np.abs(answer.logits - alone.logits).max() < 1e-4 * scale
    for answer in together[: len(rows)]:
        own = answer.row
        assert own.kept is not None
        chain = LowerLayers(shared_world.chains[own.chain], full)
        states = states_alone(chain, own.ids, own.types, Level.FULL)[torch.from_numpy(own.kept)]
        hplm = shared_world.hplm(own)
        expected = outputs_from_states(shared_world.tiny.root, hplm, states)
        assert np.abs(answer.logits - expected).max() < 1e-4 * scale_of(hplm.head)
        assert answer.used == own.model


def test_the_same_text_is_always_pruned_alike(executor: Executor, shared_world: EngineWorld) -> None:
    number = pruned_numbers(shared_world)[0]
    texts = [TEXT, "a doctor of the city", "zebra quixotic winter stone river"]
    rows = [row(shared_world, number, text) for text in texts]
    alone = [answered(executor, each)[0].kept for each in rows]
    company = [shared_world.row(n, "a good winter", Level(1 + n % 2)) for n in range(10)]
    together = answered(executor, *company, *reversed(rows))[: len(company) - 1 : -1]
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other.kept)


def test_a_pruned_text_counts_as_the_tokens_of_each_layer(
    executor: Executor, shared_world: EngineWorld
) -> None:
    config = shared_world.tiny.root.config
    [answer] = answered(executor, row(shared_world, pruned_numbers(shared_world)[0]))
    whole, pruned = answer.row.escalated(config), further(shared_world, answer)
    assert len(pruned) == len(whole)
    assert whole.work - pruned.work == len(pruned) - pruned.upper_tokens > 0


@pytest.mark.parametrize("pruning", [0.0, 1e-9])
def test_a_text_of_which_all_is_kept_is_a_whole_one(
    executor: Executor, shared_world: EngineWorld, pruning: float
) -> None:
    [answer] = answered(executor, row(shared_world, pruned_numbers(shared_world)[0], pruning=pruning))
    assert answer.escalates
    assert answer.kept is None


def test_a_text_that_does_not_go_on_is_not_pruned(executor: Executor, shared_world: EngineWorld) -> None:
    given = row(shared_world, pruned_numbers(shared_world)[0])
    assert given.dispatcher is not None
    stays = replace(given, dispatcher=replace(given.dispatcher, cutoff=-1.0), text_hash=b"\xff" * 8)
    [answer] = answered(executor, stays)
    assert (answer.escalates, answer.kept) == (False, None)
