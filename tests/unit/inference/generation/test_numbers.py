"""Completions beside those of transformers, and their numbers alone as among many, in both formats."""

from typing import Any

import pytest
import torch

from inference.generation.requests import GenerationRequest
from tests.unit.inference.generation.decoder_world import (
    ROOT,
    DecoderWorld,
    a_request,
    generated,
    prompts,
)

DIGESTS = (ROOT, "1", "2", "4", "5", "7")
TOKENS = 6
FORMATS = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


def requests(count: int, **fields: Any) -> list[GenerationRequest]:
    """Requests to all models in turn."""
    return [
        a_request(str(number), DIGESTS[number % len(DIGESTS)], prompt, TOKENS, **fields)
        for number, prompt in enumerate(prompts(count, 12, seed=11))
    ]


def test_greedy_tokens_are_those_of_transformers_with_the_pet_in_it() -> None:
    asked = requests(16)
    expected = [generated("llama", one.model.digest, one.prompt, TOKENS) for one in asked]
    assert DecoderWorld().run(asked) == expected


@FORMATS
def test_rows_are_identical_alone_and_among_64(dtype: torch.dtype) -> None:
    asked = requests(64, logprobs=1)
    together = DecoderWorld(dtype=dtype, sequences=64, step_tokens=1000)
    alone = DecoderWorld(dtype=dtype, sequences=1, step_tokens=1000)
    assert all(together.run(asked))
    alone.run(asked)
    assert together.events == alone.events
