"""Which tokens of which sequences are computed in the next step."""

import logging
from bisect import insort

from inference.engine.fairness import FairShares
from inference.generation.block_manager import BlockManager, IntegrityError
from inference.generation.limits import GenerationLimits
from inference.generation.requests import GenerationError
from inference.generation.sequence import Sequence
from inference.generation.step import AdapterPool, AdapterState, Chunk, Step
from inference.generation.waiting_queue import WaitingQueue

log = logging.getLogger(__name__)

Refused = tuple[Sequence, GenerationError]


class Scheduler:
    """Continuous batching: each step has the next token of every running sequence, and, as far as step_tokens
    allow, parts of prompts (Agrawal et al., 2024).

    A sequence that runs has blocks and a lease of its adapter. When blocks run out, the newest sequence is
    preempted: it waits again, and what it had is recomputed. Waiting sequences start in fair order. One whose
    blocks are not free is overtaken by none, one whose adapter is loading by any, and one whose adapter finds
    no room by MOST_OVERTAKING: then running sequences end and give their adapters back.
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

    @property
    def available_blocks(self) -> int:
        """Blocks that no running sequence has."""
        return self._blocks.available

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

    def schedule(self) -> tuple[Step, list[Refused]]:
        """The next step, and waiting sequences whose adapter cannot be loaded, for the caller to remove."""
        self._make_room()
        refused = self._start_waiting()
        return self._step(), refused

    def advance(self, sequence: Sequence, tokens: int) -> None:
        """So many tokens of a running sequence were computed; its tenant is charged for them."""
        self._blocks.advance(sequence, tokens)
        self._shares.enter(sequence.tenant, 1)
        self._shares.settle(sequence.tenant, self._shares.charge(sequence.tenant, tokens))

    def check_integrity(self) -> None:
        """Raise IntegrityError unless all blocks are accounted for and running sequences have theirs."""
        self._blocks.check_integrity(self._running)
        if not all(sequence.block_table for sequence in self._running):
            raise IntegrityError("a sequence runs without blocks")

    def _make_room(self) -> None:
        """Give each running sequence a block for its next token, the oldest first, at the cost of the
        newest."""
        place = 0
        while place < len(self._running):
            if self._blocks.grow(self._running[place]):
                place += 1
            else:
                newest = self._running.pop()
                self._free(newest)
                self._waiting.add(newest)

    def _free(self, sequence: Sequence, *, reusable: bool = True) -> None:
        self._blocks.release(sequence, reusable=reusable)
        self._adapters.release(sequence.request.model)

    def _start_waiting(self) -> list[Refused]:
        """Start sequences while the step has tokens and places for them."""
        refused: list[Refused] = []
        tokens = self._limits.step_tokens - sum(sequence.new_tokens for sequence in self._running)
        places = self._limits.sequences - len(self._running)
        candidates = self._waiting.first(self._limits.sequences) if min(tokens, places) > 0 else []
        for sequence in candidates:
            try:
                state = self._adapters.acquire(sequence.request.model)
            except Exception as error:
                log.warning("the adapter of %s cannot be loaded", sequence.request.model, exc_info=error)
                refused.append((sequence, GenerationError.of(error)))
                continue
            may_go_on = self._start(sequence, state)
            if sequence.block_table:
                tokens, places = tokens - sequence.new_tokens, places - 1
            if not may_go_on or min(tokens, places) <= 0:
                break
        return refused

    def _start(self, sequence: Sequence, state: AdapterState) -> bool:
        """Start the sequence if its adapter was leased and it gets blocks. Returns whether those behind it
        may start, too."""
        if state is not AdapterState.LEASED:
            self._waiting.keep_turn(sequence)
            return state is AdapterState.LOADING or self._waiting.may_be_overtaken(sequence)
        # Running sequences may each need a block soon; without a reserve, a start would end in a preemption.
        if not self._blocks.allocate(sequence, reserve=len(self._running)):
            self._adapters.release(sequence.request.model)
            self._waiting.keep_turn(sequence)
            return False
        self._waiting.start(sequence)
        insort(self._running, sequence, key=lambda running: running.arrival)
        return True

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
