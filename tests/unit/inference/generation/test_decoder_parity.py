"""Completions are those of transformers with the PET in it, token by token, however they are scheduled."""

from copy import deepcopy
from statistics import mean
from typing import Any

import pytest
import torch
from torch import Tensor

from inference.generation.requests import GenerationRequest
from tests.unit.inference.generation.decoder_world import (
    OVERFLOWING,
    ROOT,
    DecoderWorld,
    a_request,
    decoder_of,
    generated,
    merged,
    prompts,
    random_lora,
)
from tests.unit.tiny_decoder import FAMILIES

DIGESTS = (ROOT, "1", "2", "3", "4", "5", "7")
TOKENS = 6


def requests(count: int, longest: int = 30, series: int = 0, **fields: Any) -> list[GenerationRequest]:
    """Requests to all models in turn."""
    return [
        a_request(str(number), DIGESTS[number % len(DIGESTS)], prompt, TOKENS, **fields)
        for number, prompt in enumerate(prompts(count, longest, series))
    ]


def expected(asked: list[GenerationRequest], family: str = "llama") -> list[tuple[int, ...]]:
    return [
        generated(family, request.model.digest, request.prompt, request.sampling.max_tokens)
        for request in asked
    ]


def work(asked: list[GenerationRequest]) -> int:
    """The tokens to compute if nothing is computed twice and nothing is shared."""
    return sum(len(request.prompt) + TOKENS - 1 for request in asked)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_numbers_are_the_same_bit_by_bit_in_any_company(family: str, dtype: torch.dtype) -> None:
    asked = requests(16, logprobs=2)
    worlds = [DecoderWorld(family, dtype=dtype, sequences=size, step_tokens=1000) for size in (16, 5, 1)]
    assert all(all(world.run(asked)) for world in worlds)
    assert worlds[0].events == worlds[1].events == worlds[2].events


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "llama"])
def test_all_families_complete_as_transformers_in_chunks_and_decodes(family: str) -> None:
    asked = requests(14, series=7)
    assert DecoderWorld(family, step_tokens=8).run(asked) == expected(asked, family)


def test_preemption_changes_no_completion() -> None:
    asked = requests(12, series=1)
    world = DecoderWorld(blocks=20)
    assert world.run(asked) == expected(asked)
    assert sum(world.runner.sizes) > work(asked), "nothing was preempted"


def test_long_prompts_are_computed_in_chunks_beside_decodes() -> None:
    asked = requests(6, 60, series=2)
    world = DecoderWorld(step_tokens=8)
    assert world.run(asked) == expected(asked)
    assert max(world.runner.sizes) == 8


@pytest.mark.parametrize("shared", [16, 19])
def test_prompts_of_one_model_share_their_prefix(shared: int) -> None:
    prefix = prompts(40, 30, seed=3)[0] * 30
    asked = [
        a_request(f"{digest} {ending}", digest, (*prefix[:shared], *range(ending)), TOKENS)
        for ending in (3, 0, 9)
        for digest in ("1", ROOT)
    ]
    world = DecoderWorld(sequences=2)
    assert world.run(asked) == expected(asked)
    # Of each model, the second and third request find three or four blocks of four tokens.
    assert sum(world.runner.sizes) <= work(asked) - 2 * (12 + 16)


def test_adapters_come_and_go_beside_running_requests() -> None:
    asked = requests(24, 8, series=4)
    world = DecoderWorld(
        lora_bytes=2 * max(random_lora(decoder_of("llama"), int(n)).bytes for n in DIGESTS[1:])
    )
    assert world.run(asked) == expected(asked)
    assert world.pets.loads > len(DIGESTS)


def test_numbers_that_are_not_finite_fail_their_request_alone() -> None:
    asked = requests(6, series=5)
    world = DecoderWorld(blocks=40)
    for _ in range(2):  # the second time in the blocks that the failed ones had
        world.events.clear()
        overflowing = [a_request(f"failed {n}", OVERFLOWING, [1] * (5 * n + 1), TOKENS) for n in range(4)]
        completions = world.run([*overflowing, *asked])
        assert completions[len(overflowing) :] == expected(asked)
        for request in overflowing:
            (event,) = world.events[request.id]
            assert event.error is not None
            assert event.error.message == "the model gave numbers that are not finite"


def test_a_seeded_completion_is_the_same_in_any_company_and_after_a_move() -> None:
    fields: dict[str, Any] = {"temperature": 1.0, "top_p": 0.95, "frequency_penalty": 0.5, "seed": 7}
    asked = requests(8, series=6, **fields)
    together = DecoderWorld().run(asked)
    assert together == DecoderWorld(sequences=1).run(asked)
    assert together != expected(asked)
    assert all(together)
    moved = [
        a_request(
            request.id, request.model.digest, request.prompt, TOKENS, completion=completion[:3], **fields
        )
        for request, completion in zip(asked, together, strict=True)
        if len(completion) == TOKENS
    ]
    continued = DecoderWorld().run(moved)
    assert continued == [completion[3:] for completion in together if len(completion) == TOKENS]


def reported(world: DecoderWorld, request: GenerationRequest) -> list[tuple[int, int, float]]:
    """The tokens with a log probability: the place in the completion, the token, its log probability."""
    return [
        (event.index, token, logprob)
        for event in world.events[request.id]
        if event.token is not None and event.logprob is not None
        for token, logprob in ((event.token, event.logprob), *event.alternatives)
    ]


def by_transformers(world: DecoderWorld, request: GenerationRequest, dtype: torch.dtype) -> Tensor:
    """The log probabilities [tokens of the completion, vocab] of all tokens by transformers."""
    ids = torch.tensor([[*request.prompt, *world.tokens(request.id)]])
    model = deepcopy(merged("llama", request.model.digest)).to(dtype)
    with torch.inference_mode():
        logits: Tensor = model(ids).logits[0, len(request.prompt) - 1 : -1]
    return logits.float().log_softmax(-1)


def test_bfloat16_costs_no_more_than_in_transformers() -> None:
    asked = requests(12, series=8, logprobs=3)
    world = DecoderWorld(dtype=torch.bfloat16, step_tokens=16)
    assert all(world.run(asked))
    ours, theirs = [], []
    for request in asked:
        exact, rounded = (by_transformers(world, request, dtype) for dtype in (torch.float32, torch.bfloat16))
        for index, token, logprob in reported(world, request):
            ours.append(abs(logprob - float(exact[index, token])))
            theirs.append(abs(float(rounded[index, token] - exact[index, token])))
    assert 0.0 < mean(ours) < 1.1 * mean(theirs)
    assert mean(ours) < 0.1
