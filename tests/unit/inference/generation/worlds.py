"""An engine whose every completion is known beforehand, under a clock that tests set."""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby

from inference.engine.fairness import FairShares
from inference.engine.rows import ModelIdentity
from inference.errors import HplmError
from inference.generation.engine import GenerationEngine
from inference.generation.limits import GenerationLimits
from inference.generation.requests import (
    GenerationError,
    GenerationRequest,
    SamplingParams,
    TokenEvent,
)
from inference.generation.step import AdapterState, Chunk, Outcome, SampledToken, SequenceFailed, Step

VOCABULARY = 50
NOT_FINITE = GenerationError("inference_failed", "the model gave numbers that are not finite")


def a_model(tenant: str = "acme", name: str = "writer") -> ModelIdentity:
    return ModelIdentity(tenant, name, 1, f"digest of {tenant}/{name}")


def a_request(
    name: str,
    prompt: tuple[int, ...] = (1, 2, 3),
    max_tokens: int = 4,
    *,
    model: ModelIdentity | None = None,
    stop_tokens: frozenset[int] = frozenset(),
    completion: tuple[int, ...] = (),
    deadline: float | None = None,
) -> GenerationRequest:
    sampling = SamplingParams(max_tokens=max_tokens, stop_tokens=stop_tokens)
    return GenerationRequest(
        id=name,
        model=model or a_model(),
        prompt=prompt,
        sampling=sampling,
        completion=completion,
        deadline=deadline,
    )


def cell_of(digest: str, before: list[bytes], token: int) -> bytes:
    """What the cache holds of a token: it depends on the model and on what the cache holds of all tokens
    before, as keys and values do."""
    return blake2b(digest.encode() + b"".join(before) + token.to_bytes(4), digest_size=8).digest()


def next_token(cells: list[bytes]) -> int:
    return int.from_bytes(blake2b(b"".join(cells), digest_size=8).digest()) % VOCABULARY


@lru_cache(maxsize=1000)
def completion_of(request: GenerationRequest) -> tuple[int, ...]:
    """The tokens that the request must get, however it is scheduled."""
    cells: list[bytes] = []
    completion: list[int] = []
    tokens = [*request.prompt]
    while True:
        while len(cells) < len(tokens):
            cells.append(cell_of(request.model.digest, cells, tokens[len(cells)]))
        token = next_token(cells)
        completion.append(token)
        tokens.append(token)
        if token in request.sampling.stop_tokens or len(completion) == request.sampling.max_tokens:
            return tuple(completion)


def positions(chunk: Chunk) -> range:
    """Of the tokens to compute."""
    return range(chunk.start, chunk.start + chunk.count)


@dataclass
class HashRunner:
    """Its next token is a hash of what it reads from a paged cache. ``failing`` requests give numbers that
    are not finite, ``raising`` ones fail the whole step."""

    limits: GenerationLimits
    failing: set[str] = field(default_factory=set)
    raising: set[str] = field(default_factory=set)
    steps: list[dict[str, range]] = field(default_factory=list)
    """The positions that each step computed, by request."""

    def __post_init__(self) -> None:
        self._cells: dict[int, bytes] = {}

    def run(self, step: Step) -> list[Outcome]:
        ids = [chunk.request_id for chunk in step.chunks]
        assert len(ids) == len(set(ids)) <= self.limits.sequences
        assert 0 < step.tokens <= self.limits.step_tokens
        models = [digest for digest, _ in groupby(chunk.model.digest for chunk in step.chunks)]
        assert len(models) == len(set(models)), "the chunks of a model are not together"
        if self.raising & {*ids}:
            raise RuntimeError("a kernel failed")
        self.steps.append({chunk.request_id: positions(chunk) for chunk in step.chunks})
        written: set[int] = set()
        for chunk in step.chunks:
            slots = self._write(chunk)
            assert written.isdisjoint(slots), "two sequences write to one block"
            written.update(slots)
        # Only now: nothing that another chunk wrote may have changed what this one reads.
        return [outcome for chunk in step.chunks for outcome in self._outcome(chunk)]

    def _write(self, chunk: Chunk) -> list[int]:
        """Compute the chunk's cells; returns where they lie."""
        assert len(chunk.tokens) == chunk.count > 0, "a chunk without tokens"
        slots = self._slots(chunk)
        for position, token in enumerate(chunk.tokens, chunk.start):
            before = [self._cells[slot] for slot in slots[:position]]
            self._cells[slots[position]] = cell_of(chunk.model.digest, before, token)
        return [slots[position] for position in positions(chunk)]

    def _outcome(self, chunk: Chunk) -> list[Outcome]:
        if chunk.request_id in self.failing:
            return [SequenceFailed(chunk.request_id, NOT_FINITE)]
        if chunk.sampling is None:
            return []
        assert chunk.start + chunk.count == len(chunk.known_tokens)
        cells = [self._cells[slot] for slot in self._slots(chunk)[: len(chunk.known_tokens)]]
        return [SampledToken(chunk.request_id, chunk.model.digest, next_token(cells))]

    def _slots(self, chunk: Chunk) -> list[int]:
        size = self.limits.block_size
        assert len(chunk.block_table) == -(-len(chunk.known_tokens) // size), "a table of another length"
        return [block * size + offset for block in chunk.block_table for offset in range(size)]


@dataclass
class SlotPool:
    """Adapters in ``slots`` slots. A load ends when a test says so; that of a ``damaged`` one fails, with
    ``damage``."""

    slots: int = 4
    damaged: set[str] = field(default_factory=set)
    loading: list[str] = field(default_factory=list)
    leases: Counter[str] = field(default_factory=Counter)
    damage: Exception = field(default_factory=lambda: HplmError("corrupt_artifact", "the adapter is damaged"))

    def __post_init__(self) -> None:
        self._loaded: dict[str, None] = {}  # least recently used first

    def acquire(self, model: ModelIdentity) -> AdapterState:
        digest = model.digest
        if digest in self.damaged:
            raise self.damage
        if digest in self._loaded:
            del self._loaded[digest]
            self._loaded[digest] = None
            self.leases[digest] += 1
            return AdapterState.LEASED
        if digest not in self.loading:
            if not self._has_room():
                return AdapterState.NO_ROOM
            self.loading.append(digest)
        return AdapterState.LOADING

    def release(self, model: ModelIdentity) -> None:
        self.leases[model.digest] -= 1
        assert self.leases[model.digest] >= 0

    def finish(self, digest: str) -> None:
        self.loading.remove(digest)
        self._loaded[digest] = None

    def finish_all(self) -> None:
        for digest in [*self.loading]:
            self.finish(digest)

    def _has_room(self) -> bool:
        if len(self._loaded) + len(self.loading) < self.slots:
            return True
        unused = next((digest for digest in self._loaded if not self.leases[digest]), None)
        if unused is None:
            return False
        del self._loaded[unused]
        return True


class World:
    """An engine with a runner, adapters and a clock; the events of each request so far."""

    def __init__(
        self,
        *,
        slots: int = 4,
        context: int = 64,
        blocks: int = 64,
        block_size: int = 4,
        sequences: int = 8,
        step_tokens: int = 16,
        runner: type[HashRunner] = HashRunner,
        shares: FairShares | None = None,
    ) -> None:
        self.limits = GenerationLimits(
            context=context,
            vocabulary=VOCABULARY,
            blocks=blocks,
            block_size=block_size,
            sequences=sequences,
            step_tokens=step_tokens,
        )
        self.runner = runner(self.limits)
        self.adapters = SlotPool(slots)
        self.now = 0.0
        self.engine = GenerationEngine(self.limits, self.runner, self.adapters, lambda: self.now, shares)
        self.events: dict[str, list[TokenEvent]] = {}

    def add(self, request: GenerationRequest) -> None:
        self.engine.add(request)
        self.events[request.id] = []

    def step(self, *, loads_finish: bool = True) -> list[TokenEvent]:
        """A step; loads that it begins finish after it."""
        events = self.engine.step()
        for event in events:
            self.events[event.request_id].append(event)
        if loads_finish:
            self.adapters.finish_all()
        self.engine.check_integrity()
        return events

    def drain(self, steps: int = 1000) -> None:
        """Step until the engine is idle, so many times at most."""
        for _ in range(steps):
            if self.engine.is_idle:
                break
            self.step()
        assert self.engine.is_idle, f"not idle after {steps} steps"
        assert self.engine.available_blocks == self.limits.blocks
        assert not self.adapters.leases.total()

    def tokens(self, name: str) -> tuple[int, ...]:
        """Of the request's events."""
        return tuple(event.token for event in self.events[name] if event.token is not None)
