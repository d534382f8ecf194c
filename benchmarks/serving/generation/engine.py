"""The product's generation engine in this process, over stored models of many tenants."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.serving.generation.decoder_root import BenchRoot
from benchmarks.serving.options import Machine
from benchmarks.serving.timing import settled
from inference.decoder.generative_hplm import GenerativeHplm
from inference.engine.pet_pool import PetPool
from inference.engine.rows import ModelIdentity
from inference.generation.engine import GenerationEngine
from inference.generation.kv_cache import KvCache
from inference.generation.limits import GenerationLimits
from inference.generation.lora_pool import LoadedModel, LoraPool
from inference.generation.requests import FinishReason, GenerationRequest, SamplingParams, TokenEvent
from inference.generation.runner import DecoderRunner

BLOCK: Final = 16
ROOT: Final = -1
"""The number of the model without a LoRA."""
POLL_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the number of its model, tokens of its prompt, tokens to generate."""

    model: int
    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What it took to generate tokens: seconds of the processor and on the wall."""

    tokens: int
    cpu_seconds: float
    seconds: float


class StoredModels:
    """Any number of models, read from a few stored ones, each into memory of its own."""

    def __init__(self, root: BenchRoot, folders: Sequence[Path], on: Machine, pool_bytes: int) -> None:
        self._root, self._folders, self._on = root, folders, on
        self._pool = PetPool(self._load, pool_bytes)
        self._executor = ThreadPoolExecutor(1, "loras")

    def loras(self, most_asked: int) -> LoraPool:
        """What an engine leases models from."""
        return LoraPool(self._pool, self._executor, most_asked)

    def open(self, models: Iterable[int]) -> None:
        """Read these models now."""
        for model in models:
            self._pool.release(self._pool.acquire(identity(model)))

    def close(self) -> None:
        """End the thread that loads."""
        self._executor.shutdown()

    def _load(self, model: ModelIdentity) -> LoadedModel:
        if model.version == 0:
            return LoadedModel(None)
        folder = self._folders[model.version % len(self._folders)]
        stored = GenerativeHplm.load(folder, self._root.decoder.architecture)
        return LoadedModel(stored.lora.to(self._on.device, self._on.dtype))


@cache
def identity(model: int) -> ModelIdentity:
    """Of the model of one tenant."""
    return ModelIdentity(f"tenant{model}", "model", model + 1, f"{model + 1:064x}")


class BenchEngine:
    """One engine with its key-value cache."""

    def __init__(
        self, root: BenchRoot, models: StoredModels, on: Machine, *, rows: int, context: int
    ) -> None:
        """context: tokens of a row at most."""
        shape = root.decoder.architecture
        blocks = rows * (-(-context // BLOCK) + 2)
        self._limits = GenerationLimits(
            context=shape.positions, vocabulary=shape.vocab, blocks=blocks, block_size=BLOCK, sequences=rows
        )
        loras = models.loras(rows)
        runner = DecoderRunner(root.decoder, KvCache.of(root.decoder, blocks, BLOCK), loras)
        self._engine = GenerationEngine(self._limits, runner, loras, time.monotonic)
        self._on = on
        self._draw = np.random.default_rng(0)
        self._asked = 0

    def add(self, requests: Iterable[Asked]) -> list[str]:
        """Ask for greedy completions of random prompts that never stop early; returns the ids."""
        ids = []
        for asked in requests:
            prompt = self._draw.integers(self._limits.vocabulary, size=asked.prompt).tolist()
            ids.append(f"{asked.model}-{self._asked}")
            self._asked += 1
            self._engine.add(
                GenerationRequest(
                    id=ids[-1],
                    model=identity(asked.model),
                    prompt=tuple(prompt),
                    sampling=SamplingParams(max_tokens=asked.answer, temperature=0.0),
                )
            )
        return ids

    def run(self, requests: Sequence[Asked]) -> tuple[Spent, int]:
        """Generate them all to their ends; what it took, and how many of them were lost: without exactly one
        last event, or without all of their tokens."""
        started = self._started()
        ids = self.add(requests)
        events: list[TokenEvent] = []
        while not self._engine.is_idle:
            events += self._step()
        spent = self._spent(started, sum(event.token is not None for event in events))
        self._engine.check_integrity()
        return spent, lost(ids, requests, events)

    def start(self, models: Sequence[int], *, prompt: int, answer: int) -> None:
        """Read a prompt for each of these models, so that every step from now on decodes a token of each."""
        self.add(Asked(model, prompt, answer) for model in models)
        begun: set[str] = set()
        while len(begun) < len(models):
            begun.update(event.request_id for event in self._step())

    def decode(self, steps: int) -> Spent:
        """So many steps."""
        started = self._started()
        tokens = sum(len(self._step()) for _ in range(steps))
        return self._spent(started, tokens)

    def _step(self) -> list[TokenEvent]:
        events = self._engine.step()
        if not events:
            time.sleep(POLL_S)  # models are being loaded
        return events

    def _started(self) -> tuple[float, float]:
        settled(self._on.device)
        return time.process_time(), time.perf_counter()

    def _spent(self, started: tuple[float, float], tokens: int) -> Spent:
        settled(self._on.device)
        return Spent(tokens, time.process_time() - started[0], time.perf_counter() - started[1])


def lost(ids: Sequence[str], requests: Sequence[Asked], events: Sequence[TokenEvent]) -> int:
    """Requests without exactly one last event or without all of their tokens."""
    ends = Counter(event.request_id for event in events if event.finish_reason is not None)
    failed = {event.request_id for event in events if event.finish_reason is FinishReason.ERROR}
    tokens = Counter(event.request_id for event in events if event.token is not None)
    return sum(
        ends[id_] != 1 or id_ in failed or tokens[id_] != asked.answer
        for id_, asked in zip(ids, requests, strict=True)
    )
