"""Computes once what requests will need, so that the first one is as quick as any other."""

from collections.abc import Sequence
from typing import Final

import torch

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from inference.decoder.lora_layout import changed_maps, map_shape
from inference.engine.rows import ModelIdentity
from inference.generation.kv_cache import KvCache
from inference.generation.limits import GenerationLimits
from inference.generation.requests import SamplingParams
from inference.generation.runner import DecoderRunner
from inference.generation.step import Chunk, Step

RANK: Final = 16
NOBODY: Final = ModelIdentity("", "", 0, "")
SAMPLING: Final = SamplingParams(max_tokens=1, top_p=0.9)


class _ZeroLora:
    """Gives all models a LoRA, with adapters, that changes nothing."""

    def __init__(self, decoder: Decoder) -> None:
        shape = decoder.architecture
        tensors = {}
        for layer in range(shape.layers):
            for name in changed_maps(shape):
                inputs, outputs = map_shape(shape, name)
                tensors[layer, name] = torch.zeros(inputs, RANK), torch.zeros(RANK, outputs)
        self._lora = DecoderLora.of(tensors, shape).to(decoder.device, decoder.dtype)

    def lora(self, model: ModelIdentity) -> DecoderLora:
        """The LoRA."""
        return self._lora


def warm_up(decoder: Decoder, cache: KvCache, limits: GenerationLimits) -> None:
    """Compute a prompt as long as a step takes, and a decode of as many sequences. Overwrites the cache: no
    request may have blocks yet. Raises DeviceLostError."""
    runner = DecoderRunner(decoder, cache, _ZeroLora(decoder))
    prompt = min(limits.step_tokens, limits.context, len(cache) * limits.block_size)
    blocks = range(-(-prompt // limits.block_size))
    runner.run(Step((_chunk("prompt", prompt, blocks),)))
    rows = min(limits.sequences, len(cache))
    runner.run(Step(tuple(_chunk(str(row), 1, [row]) for row in range(rows))))


def _chunk(name: str, tokens: int, blocks: Sequence[int]) -> Chunk:
    return Chunk(
        request_id=name,
        model=NOBODY,
        known_tokens=[0] * tokens,
        prompt_tokens=tokens,
        start=0,
        count=tokens,
        block_table=blocks,
        sampling=SAMPLING,
    )
