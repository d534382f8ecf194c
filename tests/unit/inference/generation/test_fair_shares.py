"""Tenants share the places, the blocks and the steps of an engine, by their weights."""

from collections import Counter
from typing import Any

import pytest

from inference.engine.fairness import FairShares
from tests.unit.inference.generation.worlds import VOCABULARY, World, a_model, a_request, completion_of


@pytest.mark.parametrize("weight", [1, 3])
def test_tenants_get_tokens_by_weight_whatever_the_lengths_of_their_requests(weight: int) -> None:
    world = World(sequences=1, shares=FairShares(lambda tenant: weight if tenant == "acme" else 1))
    for number in range(40):
        world.add(a_request(f"short {number}", (number, 1), 2, model=a_model("acme")))
        world.add(a_request(f"long {number}", (number,) * 10, 10, model=a_model("globex")))
    for _ in range(60):
        world.step()
    tokens = Counter[str]()
    for step in world.runner.steps:
        for name, positions in step.items():
            tokens[name.split()[0]] += len(positions)
    assert abs(tokens["short"] - weight * tokens["long"]) <= 20 * weight
    assert min(tokens.values()) > 20


def flooded(weight: float = 1.0, **sizes: Any) -> World:
    """A world in which acme's hundred long completions are under way."""
    world = World(shares=FairShares(lambda tenant: weight if tenant == "acme" else 1.0), **sizes)
    for number in range(100):
        world.add(a_request(f"flood {number}", (number % VOCABULARY, 1), 40))
    for _ in range(6):
        world.step()
    return world


@pytest.mark.parametrize("blocks", [64, 24])
def test_a_hundred_long_completions_do_not_hold_up_another_tenants_short_one(blocks: int) -> None:
    """Neither their places nor, with few blocks, their blocks."""
    world = flooded(blocks=blocks)
    short = a_request("short", max_tokens=3, model=a_model("globex"))
    world.add(short)
    for _ in range(1 + 3):
        world.step()
    assert world.tokens("short") == completion_of(short)
    assert world.engine.counts.preemptions > 0
    world.drain(20_000)
    for number in range(100):
        request = a_request(f"flood {number}", (number % VOCABULARY, 1), 40)
        assert world.tokens(request.id) == completion_of(request)


def test_places_are_shared_by_weight() -> None:
    world = flooded(weight=3.0)
    for number in range(10):
        world.add(a_request(f"other {number}", (number, 1), 40, model=a_model("globex")))
    for _ in range(6):
        world.step()
    running = Counter(name.split()[0] for name in world.runner.steps[-1])
    assert running == {"flood": 6, "other": 2}
    world.drain(20_000)


def test_who_runs_out_of_blocks_costs_no_other_tenant_its_only_place() -> None:
    world = World(blocks=12, block_size=4, step_tokens=32)
    for number in range(3):
        world.add(a_request(f"old {number}", (number,) * 4, 24))
    world.step()
    world.step()
    world.add(a_request("lone", (9,) * 4, 12, model=a_model("globex")))
    world.drain()
    prefills = [step["lone"] for step in world.runner.steps if len(step.get("lone", ())) > 1]
    assert len(prefills) == 1, "it was preempted"
    assert world.engine.counts.preemptions > 0
