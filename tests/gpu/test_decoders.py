"""Generation on a GPU: log probabilities, tokens and draws beside those of transformers on the CPU."""

from itertools import takewhile
from statistics import mean
from typing import Any

import pytest
import torch

from inference.generation.requests import GenerationRequest, TokenEvent
from tests.unit.inference.generation.decoder_world import DecoderWorld
from tests.unit.inference.generation.test_decoder_parity import by_transformers, expected, reported, requests
from tests.unit.tiny_decoder import FAMILIES

LARGEST = {torch.float32: 2e-4, torch.float16: 0.1, torch.bfloat16: 0.8}
MEAN = {torch.float32: 2e-5, torch.float16: 0.01, torch.bfloat16: 0.1}
"""Errors of log probabilities by number format."""


@pytest.mark.parametrize("family", FAMILIES)
def test_all_families_complete_as_on_the_cpu(device: torch.device, family: str) -> None:
    asked = requests(14)
    assert DecoderWorld(family, device=device).run(asked) == expected(asked, family)


def test_log_probabilities_are_those_of_transformers(device: torch.device, dtype: torch.dtype) -> None:
    """Of prompts in parts, decodes, all kinds of PET, and of completions that are drawn."""
    drawn: dict[str, Any] = {
        "temperature": 1.0,
        "top_p": 0.9,
        "top_k": 40,
        "frequency_penalty": 0.5,
        "seed": 7,
    }
    errors = []
    for fields in ({}, drawn):
        asked = requests(21, series=8, logprobs=3, **fields)
        world = DecoderWorld(dtype=dtype, device=device, step_tokens=16)
        assert all(world.run(asked))
        for request in asked:
            exact = by_transformers(world, request, torch.float32)
            errors += [
                abs(logprob - float(exact[at, token])) for at, token, logprob in reported(world, request)
            ]
    assert max(errors) < LARGEST[dtype]
    assert mean(errors) < MEAN[dtype]


def told(world: DecoderWorld, request: GenerationRequest) -> list[TokenEvent]:
    """The events of a request that have a token."""
    return [event for event in world.events[request.id] if event.token is not None]


@pytest.mark.parametrize(
    "fields", [{}, {"temperature": 1.0, "top_p": 0.95, "seed": 7}], ids=["greedy", "drawn"]
)
def test_a_completion_is_the_same_in_any_company_up_to_rounding(
    device: torch.device, dtype: torch.dtype, fields: dict[str, Any]
) -> None:
    """Bit by bit on a CPU in the formats that it serves. In half precision, a token that is nearly as likely
    may take another's place on a GPU, after which the completions are different ones."""
    asked = requests(24, series=6, logprobs=1, **fields)
    together, alone = (
        DecoderWorld(dtype=dtype, device=device, sequences=size, step_tokens=1000) for size in (24, 1)
    )
    assert all(together.run(asked))
    assert all(alone.run(asked))
    if device.type == "cpu" and dtype != torch.float16:
        assert together.events == alone.events
    same = 0
    for request in asked:
        pairs = [*zip(told(together, request), told(alone, request), strict=False)]
        common = [*takewhile(lambda pair: pair[0].token == pair[1].token, pairs)]
        same += len(common) == len(pairs)
        for one, other in common:
            assert one.logprob is not None
            assert one.logprob == pytest.approx(other.logprob, abs=LARGEST[dtype])
    assert same == len(asked) if dtype == torch.float32 else same > len(asked) // 2


def test_the_same_requests_together_get_the_same_draws_each_time(
    device: torch.device, dtype: torch.dtype
) -> None:
    asked = requests(1, logprobs=1, temperature=1.0, top_p=0.95, seed=3)
    asked += requests(24, series=6, logprobs=1, temperature=1.0, top_p=0.95, seed=7)[1:]
    worlds = [DecoderWorld(dtype=dtype, device=device, sequences=24, step_tokens=1000) for _ in range(3)]
    assert all(all(world.run(asked)) for world in worlds)
    assert worlds[0].events == worlds[1].events == worlds[2].events
