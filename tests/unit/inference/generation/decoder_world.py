"""The generation engine over a tiny random decoder with tenants' LoRAs, and the same models in transformers,
with the LoRAs merged into their weights and the adapters hooked to their modules."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from inference.decoder.decoder import Decoder
from inference.decoder.families import DECODER_FAMILIES
from inference.decoder.lora import DecoderLora
from inference.decoder.lora_layout import ADAPTERS, is_adapter
from inference.engine.pet_pool import PetPool
from inference.engine.rows import ModelIdentity
from inference.errors import HplmError
from inference.generation.engine import GenerationEngine
from inference.generation.kv_cache import KvCache
from inference.generation.limits import GenerationLimits
from inference.generation.lora_pool import LoadedModel, LoraPool
from inference.generation.requests import GenerationRequest, SamplingParams, TokenEvent
from inference.generation.runner import DecoderRunner
from inference.generation.step import Outcome, Step
from tests.unit.inference.decoder import loras
from tests.unit.tiny_decoder import EOS, POSITIONS, VOCAB, tiny_decoder, tiny_decoder_model

ROOT, DAMAGED, OVERFLOWING = "root", "damaged", "overflowing"
"""Digests of the model without a LoRA, of one that cannot be loaded, and of one whose numbers overflow."""

decoder_of = cache(tiny_decoder)


def random_lora(decoder: Decoder, number: int, scale: float = 0.5) -> DecoderLora:
    """A LoRA whose rank, layers and projections depend on its number. Number 4 has adapters, too; numbers 5
    and 7 have adapters alone, of the same shapes."""
    shape = decoder.architecture
    layers, projections = range(number % 2, shape.layers), shape.projections[number % 3 :]
    ranks = {(layer, name): 1 + 3 * (number % 4) for layer in layers for name in projections}
    if number >= 4:
        widths = {(layer, name): 24 for layer in layers for name in ADAPTERS.values()}
        ranks = ranks | widths if number == 4 else widths
    return loras.random_lora(shape, ranks, number, scale=scale).to("cpu", decoder.dtype)


@cache
def merged(family: str, digest: str) -> Any:
    """The model of transformers with that LoRA in its weights, and hooks that are its adapters. Its types do
    not know of `generate`."""
    model = tiny_decoder_model(family)
    if digest != ROOT:
        decoder, names = decoder_of(family), DECODER_FAMILIES[family]
        weights = names.canonical(dict(model.state_dict()), decoder.architecture)
        modules = {adapter: names.layer_names[projection] for projection, adapter in ADAPTERS.items()}
        for (layer, name), (a, b) in random_lora(decoder, int(digest)).tensors.items():
            if is_adapter(name):
                module = model.get_submodule(names.prefix + names.layer.format(layer) + modules[name])
                module.register_forward_hook(partial(_adapted, a, b))
            else:
                weights[f"layers.{layer}.{name}.weight"] += (a @ b).t()
    return model


def _adapted(a: Tensor, b: Tensor, module: nn.Module, _inputs: object, outputs: Tensor) -> Tensor:
    """What a module gives with a bottleneck adapter behind it."""
    return outputs + (outputs @ a.to(outputs.dtype)).relu() @ b.to(outputs.dtype)


@cache
def generated(family: str, digest: str, prompt: tuple[int, ...], max_tokens: int) -> tuple[int, ...]:
    """The greedy completion by transformers, with the token that ends it."""
    ids = torch.tensor([prompt])
    result = merged(family, digest).generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max_tokens,
        do_sample=False,
        pad_token_id=0,
    )
    return tuple(result[0, len(prompt) :].tolist())


def prompts(count: int, longest: int = 30, seed: int = 0) -> list[tuple[int, ...]]:
    """Random prompts of all lengths from 1 to longest."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [tuple(torch.randint(0, 256, (length,), generator=generator).tolist()) for length in lengths]


def a_request(
    name: str, digest: str, prompt: Sequence[int], max_tokens: int, **fields: Any
) -> GenerationRequest:
    """Greedy unless fields of its sampling say otherwise. completion: see `GenerationRequest`."""
    completion = tuple(fields.pop("completion", ()))
    sampling = {"temperature": 0.0, "stop_tokens": frozenset({EOS}), **fields}
    return GenerationRequest(
        id=name,
        model=ModelIdentity(f"tenant {digest}", "writer", 1, digest),
        prompt=tuple(prompt),
        sampling=SamplingParams(max_tokens=max_tokens, **sampling),
        completion=completion,
    )


@dataclass
class CountingRunner:
    """Counts the tokens that a runner computes, and keeps the sizes of its steps."""

    runner: DecoderRunner
    sizes: list[int] = field(default_factory=list)

    def run(self, step: Step) -> list[Outcome]:
        self.sizes.append(step.tokens)
        return self.runner.run(step)


class DecoderWorld:
    """An engine over one tiny decoder. The digest of a model with a LoRA is the LoRA's number. Loads finish
    after the step that began them."""

    def __init__(
        self,
        family: str = "llama",
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        blocks: int = 400,
        block_size: int = 4,
        sequences: int = 8,
        step_tokens: int = 64,
        lora_bytes: int = 10**8,
    ) -> None:
        decoder = decoder_of(family)
        weights = {name: value.to(device, dtype) for name, value in decoder.weights.items()}
        self.decoder = Decoder(decoder.architecture, weights)
        self.limits = GenerationLimits(
            context=POSITIONS,
            vocabulary=VOCAB,
            blocks=blocks,
            block_size=block_size,
            sequences=sequences,
            step_tokens=step_tokens,
        )
        self.cache = KvCache.of(self.decoder, blocks, block_size)
        self.executor = LaterExecutor()
        self.pets = PetPool(self._load, lora_bytes)
        self.loras = LoraPool(self.pets, self.executor, sequences)
        self.runner = CountingRunner(DecoderRunner(self.decoder, self.cache, self.loras))
        self.engine = GenerationEngine(self.limits, self.runner, self.loras, lambda: 0.0)
        self.events: dict[str, list[TokenEvent]] = {}

    def _load(self, model: ModelIdentity) -> LoadedModel:
        if model.digest == ROOT:
            return LoadedModel(None)
        if model.digest == DAMAGED:
            raise HplmError("corrupt_artifact", "the LoRA is damaged")
        if model.digest == OVERFLOWING:
            return LoadedModel(random_lora(self.decoder, 1, scale=1e30))
        lora = random_lora(self.decoder, int(model.digest))
        return LoadedModel(lora.to(self.decoder.device, self.decoder.dtype))

    def step(self) -> list[TokenEvent]:
        events = self.engine.step()
        for event in events:
            self.events.setdefault(event.request_id, []).append(event)
        self.engine.check_integrity()
        return events

    def steps(self) -> Iterator[list[TokenEvent]]:
        """Step until the engine is idle."""
        for _ in range(2000):
            if self.engine.is_idle:
                break
            yield self.step()
            self.executor.run_all()
        assert self.engine.is_idle
        self.loras.check_integrity()

    def run(self, requests: Sequence[GenerationRequest]) -> list[tuple[int, ...]]:
        """The completions of these requests, side by side."""
        for request in requests:
            self.engine.add(request)
        for _ in self.steps():
            pass
        return [self.tokens(request.id) for request in requests]

    def tokens(self, name: str) -> tuple[int, ...]:
        return tuple(event.token for event in self.events[name] if event.token is not None)


class LaterExecutor(Executor):
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run_all(self) -> None:
        while self._waiting:
            future, call = self._waiting.popleft()
            try:
                future.set_result(call())
            except Exception as error:  # noqa: BLE001 - as executors do
                future.set_exception(error)
