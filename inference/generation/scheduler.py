"""Continuous batching: which tokens of which sequences are computed in the next step."""

import logging
from bisect import insort
from collections import Counter
from dataclasses import dataclass

from inference.device_errors import raise_if_device_lost
from inference.engine.fairness import FairShares
from inference.generation.block_manager import BlockManager, IntegrityError
from inference.generation.limits import GenerationLimits
from inference.generation.requests import GenerationError
from inference.generation.sequence import Sequence, WaitingQueue
from inference.generation.step import AdapterPool, AdapterState, Chunk, Step

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCounts:
    """The requests and blocks of an engine at one moment, and what it did since its start.

    running, waiting: requests with blocks, and without. Each of the ``blocks`` of ``block_size`` tokens is
    used, cached or free. computed_tokens: of prompts and completions, recomputed ones included. found_tokens:
    hits of the prefix cache, whose keys and values were not computed. completions: those that ended without
    an error. preemptions: how often a running request lost its blocks and waited again.
    """

    running: int
    waiting: int
    blocks: int
    block_size: int
    used_blocks: int
    cached_blocks: int
    computed_tokens: int
    found_tokens: int
    generated_tokens: int
    preemptions: int
    completions: int = 0

    @property
    def free_blocks(self) -> int:
        """Blocks that hold nothing."""
        return self.blocks - self.used_blocks - self.cached_blocks


Refused = tuple[Sequence, GenerationError]


class Scheduler:
    """Each step has the next token of every running sequence, and, as far as step_tokens allow, chunks of
    prompts (chunked prefill; Agrawal et al., 2024).

    A sequence that runs has blocks and a lease of its adapter. When blocks run out, a sequence is preempted:
    it waits again, and what it had is recomputed, but for the blocks that are still cached. It is the newest
    one of the tenant that runs the most for its weight; a tenant's only one is spared as long as another has
    several. So the oldest sequence goes on to its end.

    Waiting sequences start in fair order. If there is no place or there are no blocks for the first one, and
    another tenant would still run as much for its weight with one sequence less, that one is preempted: a
    tenant with many long completions holds up no other.

    No sequence starts before one that is due earlier and waits for blocks. Any may start before one whose
    adapter is loading, and MAX_OVERTAKING before one whose adapter has no room: after them nothing starts
    until running sequences have given their adapters back.
    """

    def __init__(
        self, limits: GenerationLimits, adapters: AdapterPool, shares: FairShares | None = None
    ) -> None:
        """``shares`` are charged the tokens of each step."""
        self._limits = limits
        self._adapters = adapters
        self._shares = FairShares() if shares is None else shares
        self._waiting = WaitingQueue(self._shares)
        self._running: list[Sequence] = []  # oldest first
        self._blocks = BlockManager(limits.blocks, limits.block_size)
        self._preemptions = 0
        self._computed_tokens = 0

    @property
    def available_blocks(self) -> int:
        """Blocks that no running sequence has."""
        return self._blocks.available

    def counts(self, *, sequences: int, generated: int, completed: int) -> GenerationCounts:
        """The counts of the engine. sequences: all that it holds; generated, completed: tokens and
        completions since its start. Any thread may read them."""
        running, available, cached = len(self._running), self._blocks.available, self._blocks.cached
        return GenerationCounts(
            running=running,
            waiting=max(0, sequences - running),
            blocks=self._limits.blocks,
            block_size=self._limits.block_size,
            used_blocks=self._limits.blocks - available,
            cached_blocks=min(available, cached),
            computed_tokens=self._computed_tokens,
            found_tokens=self._blocks.found_tokens,
            generated_tokens=generated,
            completions=completed,
            preemptions=self._preemptions,
        )

    def add(self, sequence: Sequence) -> None:
        """The sequence waits from now on."""
        self._shares.enter(sequence.tenant, 1)
        self._waiting.add(sequence)

    def remove(self, sequence: Sequence, *, reusable: bool = True) -> None:
        """The sequence has ended; all that it has is free. ``reusable``: its blocks may be shared."""
        if sequence.block_table:
            self._running.remove(sequence)
            self._free(sequence, reusable=reusable)
        else:
            self._waiting.remove(sequence)
        self._shares.leave(sequence.tenant, 1)

    def schedule(self, only: Sequence | None = None) -> tuple[Step, list[Refused]]:
        """The next step, and waiting sequences whose adapter cannot be loaded, for the caller to remove. With
        ``only`` one sequence, all others wait."""
        if only is not None:
            for sequence in [one for one in self._running if one is not only]:
                self._preempt(sequence)
        self._reserve_blocks()
        refused = self._start_waiting(only)
        return self._step(), refused

    def advance(self, sequence: Sequence, tokens: int) -> None:
        """So many tokens of a running sequence were computed; its tenant is charged for them."""
        self._blocks.advance(sequence, tokens)
        self._computed_tokens += tokens
        self._shares.enter(sequence.tenant, 1)
        self._shares.settle(sequence.tenant, self._shares.charge(sequence.tenant, tokens))

    def check_integrity(self) -> None:
        """Raise IntegrityError unless all blocks are accounted for and running sequences have theirs."""
        self._blocks.check_integrity(self._running)
        if not all(sequence.block_table for sequence in self._running):
            raise IntegrityError("a sequence runs without blocks")

    def _reserve_blocks(self) -> None:
        """Give each running sequence a block for its next token, the oldest first; preempt others for it."""
        for sequence in [*self._running]:
            while sequence.block_table and not self._blocks.grow(sequence):
                self._preempt(self._preemption_victim() or self._running[-1])

    def _preempt(self, sequence: Sequence) -> None:
        """The running sequence waits again."""
        self._running.remove(sequence)
        self._free(sequence)
        self._waiting.add(sequence)
        self._preemptions += 1

    def _preemption_victim(self) -> Sequence | None:
        """The newest sequence of the tenant that runs the most for its weight, of those that run several."""
        counts, weight = self._counts(), self._shares.weight
        several = [sequence for sequence in self._running if counts[sequence.tenant] > 1]
        return max(
            several, key=lambda one: (counts[one.tenant] / weight(one.tenant), one.arrival), default=None
        )

    def _counts(self) -> Counter[str]:
        """How many sequences of each tenant run."""
        return Counter(sequence.tenant for sequence in self._running)

    def _victim_for(self, sequence: Sequence) -> Sequence | None:
        """The running sequence to preempt for a waiting one; None if no tenant runs more for its weight."""
        counts, weight = self._counts(), self._shares.weight
        asked = (counts[sequence.tenant] + 1) / weight(sequence.tenant)
        newest = self._preemption_victim()
        if newest is None or counts[newest.tenant] / weight(newest.tenant) <= asked:
            return None
        return newest

    def _free(self, sequence: Sequence, *, reusable: bool = True) -> None:
        self._blocks.release(sequence, reusable=reusable)
        self._adapters.release(sequence.request.model)

    def _start_waiting(self, only: Sequence | None) -> list[Refused]:
        """Start sequences, or ``only`` one, while the step has tokens and places for them."""
        refused: list[Refused] = []
        if only is None:
            waiting = self._waiting.first(self._limits.sequences)
        else:
            waiting = [] if only.block_table else [only]
        for sequence in waiting:
            if not self._tokens_left or not (self._places_left or self._victim_for(sequence)):
                break
            try:
                state = self._adapters.acquire(sequence.request.model)
            except Exception as error:
                raise_if_device_lost(error)
                log.warning("the adapter of %s cannot be loaded", sequence.request.model, exc_info=error)
                refused.append((sequence, GenerationError.of(error)))
                continue
            if not self._start(sequence, state):
                break
        return refused

    @property
    def _tokens_left(self) -> int:
        """Tokens of the step that running sequences have no use for."""
        return max(0, self._limits.step_tokens - sum(sequence.new_tokens for sequence in self._running))

    @property
    def _places_left(self) -> int:
        return self._limits.sequences - len(self._running)

    def _start(self, sequence: Sequence, state: AdapterState) -> bool:
        """Start the sequence if its adapter was leased and it gets blocks. Returns whether those behind it
        may start, too."""
        if state is not AdapterState.LEASED:
            self._waiting.hold_first(sequence)
            return state is AdapterState.LOADING or self._waiting.may_be_overtaken(sequence)
        while not self._has_room(sequence):
            if (preempted := self._victim_for(sequence)) is None:
                self._adapters.release(sequence.request.model)
                self._waiting.hold_first(sequence)
                return False
            self._preempt(preempted)
        self._waiting.start(sequence)
        insort(self._running, sequence, key=lambda running: running.arrival)
        return True

    def _has_room(self, sequence: Sequence) -> bool:
        """Give the sequence blocks if there is a place for it, too."""
        # Running sequences may each need a block soon; without a reserve, a start would end in a preemption.
        return self._places_left > 0 and self._blocks.allocate(sequence, reserve=len(self._running))

    def _step(self) -> Step:
        """Decodes first, so that none waits for a long prompt; the chunks of a model together."""
        budget, chunks = self._limits.step_tokens, []
        for sequence in sorted(self._running, key=lambda running: (running.new_tokens > 1, running.arrival)):
            if count := min(sequence.new_tokens, budget):
                chunks.append(_chunk(sequence, count))
                budget -= count
        return Step(tuple(sorted(chunks, key=lambda chunk: chunk.model.digest)))


def _chunk(sequence: Sequence, count: int) -> Chunk:
    request = sequence.request
    return Chunk(
        request_id=request.id,
        model=request.model,
        known_tokens=sequence.tokens,
        prompt_tokens=len(request.prompt),
        start=sequence.computed,
        count=count,
        block_table=sequence.block_table,
        sampling=request.sampling if count == sequence.new_tokens else None,
    )
