"""A request in the generation engine: its tokens and their blocks, and the queue of those that wait."""

import sys
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from inference.engine.fairness import FairShares
from inference.generation.requests import FinishReason, GenerationRequest

MAX_OVERTAKING: Final = 64
"""The most sequences that may start before the first one of the queue while its adapter has no room."""


@dataclass(slots=True, eq=False)
class Sequence:
    """The tokens of a request, and how many of them are computed.

    tokens: the prompt and the completion so far. computed: so many of them have their keys and values in the
    blocks of block_table. block_hashes: of the full blocks of tokens, as far as they were needed. arrival:
    its place among all requests of the engine.
    """

    request: GenerationRequest
    arrival: int
    tokens: list[int] = field(init=False)
    computed: int = 0
    block_table: list[int] = field(default_factory=list)
    block_hashes: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = [*self.request.prompt, *self.request.completion]

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def tenant(self) -> str:
        """The tenant that its tokens are charged to."""
        return self.request.model.tenant

    @property
    def new_tokens(self) -> int:
        """Tokens that are known and not computed; 1 in a decode."""
        return len(self.tokens) - self.computed

    @property
    def completion_tokens(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    def append(self, token: int) -> FinishReason | None:
        """Add the next token of the completion. Returns why the completion ends with it; None: it goes on."""
        self.tokens.append(token)
        sampling = self.request.sampling
        if token in sampling.stop_tokens:
            return FinishReason.STOP
        return FinishReason.LENGTH if self.completion_tokens == sampling.max_tokens else None


class WaitingQueue:
    """A queue for each tenant in order of arrival; ``shares`` says which tenant is due.

    The sequence that was due first and could not start stays first.
    """

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._queues: dict[str, list[Sequence]] = {}
        self._head: Sequence | None = None
        self._overtaken = 0  # so many started before the head

    def add(self, sequence: Sequence) -> None:
        """A new sequence, or one that was preempted, waits where its arrival puts it."""
        insort(self._queues.setdefault(sequence.tenant, []), sequence, key=_arrival)

    def start(self, sequence: Sequence) -> None:
        """The sequence starts: it waits no more."""
        self.remove(sequence)
        self._overtaken += 1

    def remove(self, sequence: Sequence) -> None:
        """The sequence waits no more."""
        queue = self._queues[sequence.tenant]
        del queue[bisect_left(queue, sequence.arrival, key=_arrival)]
        if not queue:
            del self._queues[sequence.tenant]
        if sequence is self._head:
            self._head = None

    def hold_first(self, sequence: Sequence) -> None:
        """The sequence could not start. It stays first, unless another one does already."""
        if self._head is None:
            self._head, self._overtaken = sequence, 0

    def may_be_overtaken(self, sequence: Sequence) -> bool:
        """Whether others may start before it although its adapter finds no room."""
        return sequence is not self._head or self._overtaken < MAX_OVERTAKING

    def first(self, count: int) -> list[Sequence]:
        """So many sequences at most, in the order in which they are due."""
        return [*islice(self._in_order(), count)]

    def _in_order(self) -> Iterator[Sequence]:
        if self._head is not None:
            yield self._head
        due = self._shares.due(self._queues, tokens=lambda s: s.new_tokens, quantum=sys.maxsize)
        yield from (sequence for sequence in due if sequence is not self._head)


def _arrival(sequence: Sequence) -> int:
    return sequence.arrival
