"""Completions by a model whose lower layers read fragments alone, from the product's generation engine."""

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy.hgpt.lower_layers import LocalLowerLayers
from benchmarks.accuracy.hgpt.texts import Texts
from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from inference.decoder.lora_deltas import LoraDeltas
from inference.engine.rows import ModelIdentity
from inference.generation.engine import GenerationEngine
from inference.generation.kv_cache import KvCache
from inference.generation.limits import GenerationLimits
from inference.generation.offline import BLOCK_SIZE, run_to_end
from inference.generation.paged_attention import PagedAttention
from inference.generation.requests import GenerationRequest, SamplingParams
from inference.generation.runner import outcome_of
from inference.generation.sampler import sample
from inference.generation.step import AdapterState, Chunk, Outcome, Step

_MODEL: Final = ModelIdentity("", "local", 1, "local")


class FragmentRunner:
    """The `Runner` of one model: lower states of fragments below the decoder's upper layers with a LoRA.

    cache: of the upper layers alone.
    """

    def __init__(
        self, decoder: Decoder, local: LocalLowerLayers, lora: DecoderLora | None, cache: KvCache
    ) -> None:
        self._decoder, self._local, self._lora, self._cache = decoder, local, lora, cache

    @torch.inference_mode()
    def run(self, step: Step) -> list[Outcome]:
        """See `Runner`."""
        chunks = step.chunks
        positions = [at for chunk in chunks for at in range(chunk.start, chunk.start + chunk.count)]
        ends = torch.tensor([chunk.count for chunk in chunks]).cumsum(0) - 1
        states = self._decoder.run_layers(
            torch.cat([self._lower(chunk) for chunk in chunks]),
            torch.tensor(positions),
            PagedAttention(self._cache, chunks),
            LoraDeltas([(self._lora, step.tokens)]),
            range(self._local.layers, self._decoder.architecture.layers),
        )
        due = [number for number, chunk in enumerate(chunks) if chunk.sampling is not None]
        asked = [chunks[number] for number in due]
        choices = sample(self._decoder.logits(states[ends[due]]), asked)
        return [outcome_of(chunk, choice) for chunk, choice in zip(asked, choices, strict=True)]

    def _lower(self, chunk: Chunk) -> Tensor:
        """The lower states [count, hidden] of a chunk, which are functions of the fragments alone. One more
        token than these hold is read, so that no fragment seems to begin its text."""
        end = chunk.start + chunk.count
        tail = np.asarray(chunk.known_tokens[max(0, chunk.start - self._local.n) : end], dtype=np.int64)
        return self._local.states(Texts((tail,)))[-chunk.count :]


class _OneModel:
    """The `AdapterPool` of a runner that has its only LoRA."""

    def acquire(self, model: ModelIdentity) -> AdapterState:
        """It is there."""
        return AdapterState.LEASED

    def release(self, model: ModelIdentity) -> None:
        """It stays."""


def complete_from_fragments(
    decoder: Decoder,
    local: LocalLowerLayers,
    lora: DecoderLora | None,
    prompts: Sequence[Sequence[int]],
    sampling: SamplingParams,
) -> list[list[int]]:
    """The completion of each prompt, without the token that ends it."""
    shape = decoder.architecture
    longest = max(map(len, prompts)) + sampling.max_tokens
    blocks = len(prompts) * -(-longest // BLOCK_SIZE)
    cache = KvCache.of(decoder, blocks, BLOCK_SIZE, range(local.layers, shape.layers))
    limits = GenerationLimits(
        context=longest, vocabulary=shape.vocab, blocks=blocks, block_size=BLOCK_SIZE, sequences=len(prompts)
    )
    steps = itertools.count()
    loaded = None if lora is None else lora.to(decoder.device, decoder.dtype)
    runner = FragmentRunner(decoder, local, loaded, cache)
    engine = GenerationEngine(limits, runner, _OneModel(), lambda: float(next(steps)))
    for number, prompt in enumerate(prompts):
        engine.add(GenerationRequest(id=str(number), model=_MODEL, prompt=tuple(prompt), sampling=sampling))
    return run_to_end(engine, len(prompts), sampling.stop_tokens, lambda _ended: None)
