"""The requests that one worker of a cluster generates for, and the KV cache that they take (Punica, 5.1).

Blocks are counted from numbers of tokens, without asking the worker. Blocks that requests share count for
each of them, so a worker never holds more than is counted here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from inference.generation.limits import GenerationLimits

LIGHT_SHARE: Final = 0.5
"""A worker is lightly loaded with at most this share of its rows and of its blocks in use."""


class Attempt(NamedTuple):
    """One stay of a request on one worker. What a worker reports of an earlier attempt is ignored."""

    request_id: str
    number: int


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What one worker holds: what its ``engine`` does. It takes a request beside others only if
    ``growth_blocks`` blocks of its KV cache stay free for each of them."""

    engine: GenerationLimits
    growth_blocks: int = 4

    def __post_init__(self) -> None:
        if self.growth_blocks < 0:
            raise ValueError(f"growth_blocks must be 0 or more, not {self.growth_blocks}")

    @property
    def rows(self) -> int:
        """The most requests in a step."""
        return self.engine.sequences

    @property
    def blocks(self) -> int:
        """The blocks of the KV cache."""
        return self.engine.blocks

    @property
    def block_size(self) -> int:
        """The tokens of a block."""
        return self.engine.block_size

    def blocks_of(self, tokens: int) -> int:
        """The blocks that so many tokens take."""
        return -(-tokens // self.block_size)


@dataclass(slots=True, eq=False)
class PlacedRequest:
    """A request that has not ended. ``order``: its place in the order of arrival; ``generated``: its tokens
    so far; ``blocks``: what it takes on a worker, its next token included; ``worker``: the id of the worker
    that has it, None while it waits."""

    request_id: str
    order: int
    prompt: Sequence[int]
    max_tokens: int
    blocks: int
    generated: list[int] = field(default_factory=list)
    attempts: int = 0
    worker: int | None = None

    @property
    def attempt(self) -> Attempt:
        """The latest attempt."""
        return Attempt(self.request_id, self.attempts)

    @property
    def tokens(self) -> int:
        """How many the prompt and the generated tokens are."""
        return len(self.prompt) + len(self.generated)


@dataclass(slots=True, eq=False)
class WorkingSet:
    """The requests of one worker, by attempt, and the ``blocks`` that they take."""

    worker: int
    limits: WorkerLimits
    requests: dict[Attempt, PlacedRequest] = field(default_factory=dict)
    blocks: int = 0

    @property
    def rows(self) -> int:
        """How many requests there are."""
        return len(self.requests)

    @property
    def lightly_loaded(self) -> bool:
        """Whether the worker could take about as much again."""
        rows, blocks = LIGHT_SHARE * self.limits.rows, LIGHT_SHARE * self.limits.blocks
        return self.rows <= rows and self.blocks <= blocks

    @property
    def newest(self) -> PlacedRequest:
        """The request that arrived last. There must be one."""
        return max(self.requests.values(), key=lambda request: request.order)

    def fits(self, request: PlacedRequest, beside: Collection[PlacedRequest] = ()) -> bool:
        """Whether there is room for the request, if those ``beside`` it come, too.

        Without room to grow, a worker with a full KV cache would take requests only to give them away after a
        few steps.
        """
        rows = self.rows + len(beside) + 1
        blocks = self.blocks + sum(other.blocks for other in beside) + request.blocks
        growth = self.limits.growth_blocks * rows if rows > 1 else 0
        return rows <= self.limits.rows and blocks + growth <= self.limits.blocks

    def take(self, request: PlacedRequest) -> None:
        """Begin the request's next attempt here."""
        request.attempts += 1
        request.worker = self.worker
        self.requests[request.attempt] = request
        self.blocks += request.blocks

    def drop(self, request: PlacedRequest) -> None:
        """End the request's attempt here."""
        del self.requests[request.attempt]
        self.blocks -= request.blocks
        request.worker = None

    def grow(self, request: PlacedRequest, token_ids: Sequence[int]) -> None:
        """Add generated tokens to a request. The blocks may exceed the limit afterwards."""
        request.generated.extend(token_ids)
        assert len(request.generated) < request.max_tokens, "the last token is reported with the end"
        missing = request.tokens + 1 - request.blocks * self.limits.block_size
        if missing > 0:
            more = self.limits.blocks_of(missing)
            request.blocks += more
            self.blocks += more
