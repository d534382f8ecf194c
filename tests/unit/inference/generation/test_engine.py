"""A request gets its tokens whatever happens beside it, and everything it held is free when it ends."""

from dataclasses import replace

import pytest
import torch

from inference.engine.rows import ModelIdentity
from inference.errors import DeviceLostError, HplmError
from inference.generation.requests import FinishReason
from inference.generation.sequence import MAX_OVERTAKING
from inference.generation.step import Outcome, SampledToken, Step
from tests.unit.inference.generation.worlds import (
    HashRunner,
    World,
    a_model,
    a_request,
    completion_of,
)

LONG = tuple(range(40))
SHARED = ModelIdentity("acme", "writer", 1, "shared digest")


def last_reason(world: World, name: str) -> FinishReason | None:
    return world.events[name][-1].finish_reason


def error_code(world: World, name: str) -> str:
    """Of a request that failed with its only last event."""
    reasons = [event.finish_reason for event in world.events[name] if event.finish_reason]
    assert reasons == [FinishReason.ERROR]
    error = world.events[name][-1].error
    assert error is not None
    return error.code


def test_each_token_is_an_event_and_the_last_has_the_finish_reason() -> None:
    world = World()
    request = a_request("r", max_tokens=3)
    world.add(request)
    world.drain()
    events = world.events["r"]
    assert tuple(event.token for event in events) == completion_of(request)
    assert [event.index for event in events] == [0, 1, 2]
    assert [event.finish_reason for event in events] == [None, None, FinishReason.LENGTH]


def test_a_stop_token_is_the_last() -> None:
    tokens = completion_of(a_request("r", max_tokens=8))
    world = World()
    request = a_request("r", max_tokens=8, stop_tokens=frozenset({tokens[2]}))
    world.add(request)
    world.drain()
    assert world.tokens("r") == tokens[:3]
    assert last_reason(world, "r") is FinishReason.STOP


def test_a_long_prompt_delays_no_decode_not_even_a_newer_one() -> None:
    world = World(step_tokens=10)
    world.add(a_request("long", LONG, 1, model=a_model("globex")))
    world.add(a_request("decoding", max_tokens=12))
    world.step(loads_finish=False)
    world.adapters.finish(a_model().digest)
    world.step(loads_finish=False)
    world.adapters.finish(a_model("globex").digest)
    for _ in range(5):
        world.step()
        assert {*world.runner.steps[-1]} == {"long", "decoding"}
    world.drain()


def test_a_sequence_starts_when_those_that_run_keep_blocks_to_grow() -> None:
    """Else it would be preempted with the next token of another, and its prompt recomputed."""
    world = World(blocks=5, block_size=4, step_tokens=32)
    world.add(a_request("older", (1,) * 4, 8))
    world.add(a_request("newer", (2,) * 16, 4))
    world.drain()
    assert sum(len(step.get("newer", ())) for step in world.runner.steps) == 16 + 3


def test_a_prefix_hit_after_preemption_does_not_overflow_the_block_table() -> None:
    """nano-vllm #211, #233. The runner asserts that each table has exactly the blocks of the known tokens."""
    world = World(blocks=9, block_size=4, step_tokens=32)
    requests = [a_request("older", (1,) * 8, 24), a_request("newer", (2,) * 8, 24)]
    for request in requests:
        world.add(request)
    world.drain()
    for request in requests:
        assert world.tokens(request.id) == completion_of(request)
    recomputed = [step["newer"] for step in world.runner.steps if len(step.get("newer", ())) > 1][1:]
    assert recomputed, "the newer one was not preempted"
    assert any(positions.start > 0 for positions in recomputed), "it did not find its own blocks again"


def test_the_newest_is_preempted_and_the_oldest_never_waits() -> None:
    world = World(blocks=10, block_size=4, step_tokens=32)
    requests = [a_request(str(number), (number,) * 4, 24) for number in range(4)]
    for request in requests:
        world.add(request)
    world.drain()
    assert all("0" in step for step in world.runner.steps[:24])
    for request in requests:
        assert world.tokens(request.id) == completion_of(request)
    prefills = {name: sum(len(step.get(name, ())) > 1 for step in world.runner.steps) for name in "0123"}
    assert prefills["0"] == 1
    assert prefills["3"] > 1


def test_request_that_can_never_fit_is_refused() -> None:
    world = World(context=16, blocks=64)
    for request in (a_request("r", (1,) * 16, 1), a_request("r", (1,) * 10, 7), a_request("r", (1, 50))):
        with pytest.raises(HplmError, match="invalid_field"):
            world.engine.add(request)
    assert world.engine.is_idle


@pytest.mark.parametrize(("context", "blocks"), [(16, 64), (64, 4)])
def test_request_that_just_fits_is_completed(context: int, blocks: int) -> None:
    world = World(context=context, blocks=blocks, block_size=4)
    request = a_request("r", (1,) * 10, 6)
    world.add(request)
    world.drain()
    assert world.tokens("r") == completion_of(request)


def test_an_id_stands_for_one_request_at_a_time() -> None:
    world = World()
    world.add(a_request("r"))
    with pytest.raises(HplmError, match="in_flight"):
        world.engine.add(a_request("r"))
    assert world.engine.cancel("r")
    world.drain()
    world.add(a_request("r"))
    world.drain()
    assert last_reason(world, "r") is FinishReason.LENGTH


def test_blocks_of_a_failed_request_are_not_shared() -> None:
    world = World(step_tokens=8)
    world.add(a_request("bad", LONG, 2))
    for _ in range(3):
        world.step()
    world.runner.failing.add("bad")
    world.drain()
    world.add(a_request("good", LONG, 2))
    world.drain()
    assert sum(len(step.get("good", ())) for step in world.runner.steps) == len(LONG) + 1


def test_a_device_that_is_lost_while_an_adapter_is_loaded_is_no_request_s_fault() -> None:
    world = World()
    damaged = a_model("globex")
    world.adapters.damaged.add(damaged.digest)
    world.adapters.damage = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    world.add(a_request("bad", model=damaged))
    with pytest.raises(DeviceLostError, match="illegal memory access"):
        world.drain()


class MistakenRunner(HashRunner):
    """Computes every second sequence with another model, and loses the token of every third."""

    def run(self, step: Step) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for number, outcome in enumerate(super().run(step)):
            assert isinstance(outcome, SampledToken)
            if number == 1:
                outcomes.append(SampledToken(outcome.request_id, "another digest", outcome.token))
            elif number != 2:
                outcomes.append(outcome)
        return outcomes


def test_a_token_of_another_model_or_none_at_all_is_an_error() -> None:
    world = World(runner=MistakenRunner)
    for name in ("right", "wrong", "lost"):
        world.add(a_request(name, max_tokens=1))
    world.drain()
    assert last_reason(world, "right") is FinishReason.LENGTH
    assert error_code(world, "wrong") == error_code(world, "lost") == "inference_failed"


class LostRunner(HashRunner):
    def run(self, step: Step) -> list[Outcome]:
        raise DeviceLostError


def test_a_lost_device_is_for_the_process_to_handle() -> None:
    world = World(runner=LostRunner)
    world.add(a_request("r"))
    with pytest.raises(DeviceLostError):
        world.drain()


def test_endless_load_delays_no_other_request() -> None:
    world = World()
    world.add(a_request("warm"))
    world.step()
    world.add(a_request("cold", model=a_model("globex"), deadline=1.0))
    for number in range(100):
        world.add(a_request(str(number)))
    for _ in range(100):
        world.step(loads_finish=False)
    assert all(last_reason(world, str(number)) is FinishReason.LENGTH for number in range(100))
    world.now = 1.0
    world.drain()
    assert error_code(world, "cold") == "deadline_exceeded"


def steps_until_computed(world: World, name: str, max_tokens: int) -> int:
    """Steps until the request is computed, while in each step a new tenant has a request for a model that all
    of them share."""
    for steps in range(500):
        model = replace(SHARED, tenant=f"a{steps}")
        world.add(a_request(f"{name}: newcomer {steps}", max_tokens=max_tokens, model=model))
        world.step()
        if world.runner.steps and name in world.runner.steps[-1]:
            return steps
    raise AssertionError(f"{name} is starved")


def test_a_long_prompt_is_not_starved_by_those_that_need_fewer_blocks() -> None:
    world = World(blocks=16, block_size=4, sequences=8)
    world.add(a_request("warm", model=SHARED))
    steps_until_computed(world, "warm", max_tokens=6)
    world.add(a_request("long", LONG, 8, model=a_model("z")))
    assert steps_until_computed(world, "long", max_tokens=6) < 20
    world.drain()


def test_a_cold_adapter_is_not_starved_by_requests_for_a_warm_one() -> None:
    world = World(slots=1, sequences=4)
    world.add(a_request("warm", model=SHARED))
    steps_until_computed(world, "warm", max_tokens=3)
    world.add(a_request("cold", model=a_model("z")))
    assert steps_until_computed(world, "cold", max_tokens=3) < MAX_OVERTAKING + 20
    world.drain()


def test_a_warm_adapter_does_not_wait_for_a_cold_one_without_room() -> None:
    world = World(slots=1)
    world.add(a_request("first", max_tokens=20))
    world.step()
    world.step()
    world.add(a_request("cold", model=a_model("globex")))
    world.add(a_request("warm"))
    world.step()
    assert [*world.runner.steps[-1]] == ["first", "warm"]
    world.drain()


def test_counts_have_running_waiting_and_computed_work() -> None:
    world = World(blocks=16, block_size=4, sequences=2)
    for number in range(3):
        world.add(a_request(str(number), (1,) * 8, 4))
    world.step()
    world.step()
    counts = world.engine.counts
    assert (counts.running, counts.waiting) == (2, 1)
    assert counts.used_blocks + counts.cached_blocks + counts.free_blocks == counts.blocks == 16
    assert counts.used_blocks == 16 - world.engine.available_blocks > 0
    world.drain()
    counts = world.engine.counts
    assert (counts.running, counts.waiting, counts.used_blocks) == (0, 0, 0)
    assert (counts.generated_tokens, counts.completions) == (3 * 4, 3)
    assert counts.computed_tokens == sum(len(each) for step in world.runner.steps for each in step.values())
    assert counts.found_tokens == 3 * (8 + 3) - counts.computed_tokens > 0
    assert counts.cached_blocks > 0
