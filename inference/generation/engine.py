"""Generates completions for many models at once: requests in, numbered token events out."""

import itertools
import logging
from collections.abc import Callable

from inference.engine.fairness import FairShares
from inference.errors import DeviceLostError, HplmError
from inference.generation.limits import GenerationLimits
from inference.generation.requests import FinishReason, GenerationError, GenerationRequest, TokenEvent
from inference.generation.scheduler import GenerationCounts, Scheduler
from inference.generation.sequence import Sequence
from inference.generation.step import AdapterPool, Chunk, Outcome, Runner, SampledToken, SequenceFailed, Step

log = logging.getLogger(__name__)


class GenerationEngine:
    """Holds requests from `add` to their last event. Each token is one event; the last event of a request,
    and no other, has a finish reason. Not thread-safe."""

    def __init__(
        self,
        limits: GenerationLimits,
        runner: Runner,
        adapters: AdapterPool,
        clock: Callable[[], float],
        shares: FairShares | None = None,
    ) -> None:
        """``clock`` is what the requests' deadlines are compared with."""
        self._limits = limits
        self._runner = runner
        self._clock = clock
        self._scheduler = Scheduler(limits, adapters, shares)
        self._sequences: dict[str, Sequence] = {}
        self._cancelled: set[str] = set()
        self._arrivals = itertools.count()
        self._generated = 0
        self._completed = 0

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        return not self._sequences

    @property
    def available_blocks(self) -> int:
        """Blocks of the key-value cache that no running request has."""
        return self._scheduler.available_blocks

    @property
    def counts(self) -> GenerationCounts:
        """Its requests, blocks and tokens. Any thread may read them."""
        return self._scheduler.counts(
            sequences=len(self._sequences), generated=self._generated, completed=self._completed
        )

    def add(self, request: GenerationRequest) -> None:
        """Accept a request. Raises HplmError: ``invalid_field`` if it can never be generated here,
        ``in_flight`` if there is one of the same id."""
        self._limits.check_fits(len(request.prompt), request.sampling.max_tokens)
        self._limits.check_tokens(request.prompt + request.completion)
        if request.id in self._sequences:
            raise HplmError("in_flight", f"request {request.id} is being generated")
        sequence = Sequence(request, next(self._arrivals))
        self._sequences[request.id] = sequence
        self._scheduler.add(sequence)

    def cancel(self, request_id: str) -> bool:
        """End the request with the next step, which computes nothing of it. Returns whether there is one."""
        if request_id in self._sequences:
            self._cancelled.add(request_id)
        return request_id in self._sequences

    def step(self, only: str = "") -> list[TokenEvent]:
        """Compute one step: at most one token of each request, or of ``only`` the one of this id, while the
        others wait. Returns the events, in the order in which they came about. Raises DeviceLostError."""
        events = self._end_unwanted()
        step, refused = self._scheduler.schedule(self._sequences.get(only))
        events += [self._fail(sequence, error) for sequence, error in refused]
        outcomes = {outcome.request_id: outcome for outcome in self._run(step)}
        for chunk in step.chunks:
            events += self._advance(chunk, outcomes.get(chunk.request_id))
        return events

    def check_integrity(self) -> None:
        """Raise IntegrityError unless all blocks of the key-value cache are accounted for: free, cached, or
        used by a running request."""
        self._scheduler.check_integrity()

    def _end_unwanted(self) -> list[TokenEvent]:
        """End the requests that were cancelled or are past their deadline."""
        events = []
        now = self._clock()
        for sequence in [*self._sequences.values()]:
            deadline = sequence.request.deadline
            if sequence.id in self._cancelled:
                events.append(self._end(sequence, FinishReason.CANCELLED))
            elif deadline is not None and deadline <= now:
                message = f"the deadline passed after {sequence.completion_tokens} tokens"
                error = GenerationError("deadline_exceeded", message)
                events.append(self._end(sequence, FinishReason.ERROR, error))
        return events

    def _run(self, step: Step) -> list[Outcome]:
        """The outcomes of the chunks. A step that fails as a whole is bisected until each chunk at fault is
        alone."""
        if not step.chunks:
            return []
        try:
            return self._runner.run(step)
        except DeviceLostError:
            raise
        except Exception as error:
            if len(step.chunks) == 1:
                log.exception("a chunk of %s cannot be computed", step.chunks[0].model)
                return [SequenceFailed(step.chunks[0].request_id, GenerationError.of(error))]
        half = len(step.chunks) // 2
        return self._run(Step(step.chunks[:half])) + self._run(Step(step.chunks[half:]))

    def _advance(self, chunk: Chunk, outcome: Outcome | None) -> list[TokenEvent]:
        """Apply the outcome of a chunk. Returns the events of its request."""
        sequence = self._sequences[chunk.request_id]
        if (error := _error_of(chunk, outcome)) is not None:
            return [self._fail(sequence, error)]
        self._scheduler.advance(sequence, chunk.count)
        if not isinstance(outcome, SampledToken):
            return []
        index = sequence.completion_tokens
        reason = sequence.append(outcome.token)
        self._generated += 1
        if reason is not None:
            self._completed += 1
            self._forget(sequence)
        return [
            TokenEvent(
                request_id=sequence.id,
                index=index,
                token=outcome.token,
                logprob=outcome.logprob,
                alternatives=outcome.alternatives,
                finish_reason=reason,
            )
        ]

    def _fail(self, sequence: Sequence, error: GenerationError) -> TokenEvent:
        """End the request. Its blocks may hold numbers that are not finite: they are not shared."""
        return self._end(sequence, FinishReason.ERROR, error, reusable=False)

    def _end(
        self,
        sequence: Sequence,
        reason: FinishReason,
        error: GenerationError | None = None,
        *,
        reusable: bool = True,
    ) -> TokenEvent:
        """End the request without another token."""
        self._forget(sequence, reusable=reusable)
        self._completed += error is None  # a stop string of the edge cancels the rest
        index = sequence.completion_tokens
        return TokenEvent(request_id=sequence.id, index=index, finish_reason=reason, error=error)

    def _forget(self, sequence: Sequence, *, reusable: bool = True) -> None:
        """Free all that the request has."""
        self._scheduler.remove(sequence, reusable=reusable)
        self._cancelled.discard(sequence.id)
        del self._sequences[sequence.id]


def _error_of(chunk: Chunk, outcome: Outcome | None) -> GenerationError | None:
    """Why the chunk's request fails. A token is taken only where one is due, from the model that was asked
    for."""
    if isinstance(outcome, SequenceFailed):
        return outcome.error
    if (chunk.sampling is None) != (outcome is None):
        log.error("%s: a token is due and not there, or there and not due", chunk.model)
    elif outcome is not None and outcome.digest != chunk.model.digest:
        log.error("%s: a token came from another model, %s", chunk.model, outcome.digest[:12])
    else:
        return None
    return GenerationError("inference_failed", "the model could not be computed")
