"""Completions of many prompts by one model, computed as serving does, without a queue."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from inference.engine.pet_pool import PetPool
from inference.engine.rows import ModelIdentity
from inference.errors import HplmError
from inference.generation.engine import GenerationEngine
from inference.generation.kv_cache import KvCache, block_bytes
from inference.generation.limits import GenerationLimits
from inference.generation.lora_pool import LoadedModel, LoraPool
from inference.generation.requests import GenerationRequest, SamplingParams
from inference.generation.runner import DecoderRunner

BLOCK_SIZE: Final = 16
SEQUENCES: Final = 64
"""Prompts that are continued side by side."""
CACHE_BYTES: Final = 1 << 30
"""The key-value cache takes no more, unless the longest prompt and its completion need more."""
_MODEL: Final = ModelIdentity("", "offline", 1, "offline")


def complete(
    decoder: Decoder,
    lora: DecoderLora | None,
    prompts: Sequence[Sequence[int]],
    sampling: SamplingParams,
    *,
    context: int,
    after_step: Callable[[int], None],
) -> list[list[int]]:
    """The completion of each prompt, without the token that ends it.

    context: most tokens of a prompt and its completion, which ends there. after_step: called after each step
    with the number of completions that have ended; what it raises ends them all. Raises HplmError:
    invalid_field for a prompt that fills the context, or the error of the first completion that fails.
    """
    if not prompts:
        return []
    requests = [_request(number, prompt, sampling, context) for number, prompt in enumerate(prompts)]
    cache = _cache(decoder, requests)
    limits = GenerationLimits(
        context=context,
        vocabulary=decoder.architecture.vocab,
        blocks=len(cache),
        block_size=BLOCK_SIZE,
        sequences=SEQUENCES,
    )
    model = LoadedModel(None if lora is None else lora.to(decoder.device, decoder.dtype))
    with ThreadPoolExecutor(1, "lora") as executor:
        loras = LoraPool(PetPool(lambda _: model, max(1, model.bytes)), executor, SEQUENCES)
        engine = GenerationEngine(limits, DecoderRunner(decoder, cache, loras), loras, time.monotonic)
        for request in requests:
            engine.add(request)
        return run_to_end(engine, len(requests), sampling.stop_tokens, after_step)


def _request(number: int, prompt: Sequence[int], sampling: SamplingParams, context: int) -> GenerationRequest:
    room = context - len(prompt)
    if room < 1:
        message = f"the prompt has {len(prompt)} tokens; the context of {context} tokens is too short"
        raise HplmError("invalid_field", message)
    sampling = replace(sampling, max_tokens=min(sampling.max_tokens, room))
    return GenerationRequest(id=str(number), model=_MODEL, prompt=tuple(prompt), sampling=sampling)


def _cache(decoder: Decoder, requests: Sequence[GenerationRequest]) -> KvCache:
    """As many blocks as the longest sequences need side by side, as far as they fit."""
    needed = sorted(
        (-(-(len(one.prompt) + one.sampling.max_tokens) // BLOCK_SIZE) for one in requests), reverse=True
    )
    most = max(needed[0], CACHE_BYTES // block_bytes(decoder, BLOCK_SIZE))
    return KvCache.of(decoder, min(sum(needed[:SEQUENCES]), most), BLOCK_SIZE)


def run_to_end(
    engine: GenerationEngine, count: int, stop_tokens: frozenset[int], after_step: Callable[[int], None]
) -> list[list[int]]:
    """The completions of an engine's `count` requests, whose ids are 0, 1, …, without their stop tokens.

    after_step: called with the number of completions that have ended. Raises the HplmError of the first that
    fails.
    """
    completions: list[list[int]] = [[] for _ in range(count)]
    ended = 0
    while not engine.is_idle:
        for event in engine.step():
            if event.error is not None:
                raise HplmError(event.error.code, event.error.message)
            if event.token is not None and event.token not in stop_tokens:
                completions[int(event.request_id)].append(event.token)
            ended += event.finish_reason is not None
        after_step(ended)
    engine.check_integrity()
    return completions
