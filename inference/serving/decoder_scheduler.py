"""Scheduling of decoders: hand prompts to their engines, compute steps, and send the tokens."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from inference.engine.rows import ModelIdentity
from inference.errors import HplmError
from inference.generation.engine import GenerationEngine
from inference.generation.requests import FinishReason, GenerationRequest, TokenEvent
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.log_fields import identity_fields
from inference.queueing.messages import CompletionEnd, GeneratedToken, InferReply, TimingsMs
from inference.queueing.token_stream import Continuation, tokens_sent
from inference.queueing.transport import Address
from inference.serving.decoder_catalogue import DecoderCatalogue
from inference.serving.loop_timing import Clock, LoopTiming
from inference.serving.metrics import WorkerMetrics
from inference.serving.outbox import Outbox, cancellation, failure
from inference.serving.recent import RecentGeneration

log = logging.getLogger(__name__)

BACKGROUND_COMPLETIONS: Final = 8
"""The most completions of the background at a time."""
SUSPECT_TOKENS: Final = 8
"""A suspect is computed alone until it has so many tokens more than when its worker died."""


@dataclass(slots=True, eq=False)
class _Completion:
    """A request that an engine has: tokens that are not sent yet, and the reply once there is one.
    number_format: of its root, "" once a token names it. compute_s: its share of the steps."""

    entry: Entry
    engine: GenerationEngine
    number_format: str
    tokens: list[GeneratedToken] = field(default_factory=list)
    reply: InferReply | None = None
    first_step_at: float | None = None
    compute_s: float = 0.0

    @property
    def id(self) -> str:
        return self.entry.request.id

    def timings(self, now: float) -> TimingsMs:
        """As of an `InferReply` that is given at unix time ``now``."""
        enqueued, started = self.entry.request.enqueued_at, self.first_step_at or now
        return TimingsMs(
            queue=round(max(0.0, started - enqueued) * 1000, 3),
            compute=round(self.compute_s * 1000, 3),
            total=round(max(0.0, now - enqueued) * 1000, 3),
        )


class DecoderScheduler:
    """Lets the engine of each root compute a step at a time; completions of the background begin when no
    others are open. Implements `Scheduler`. Owned by the loop's thread."""

    error = ""
    progress = 0
    in_flight = False

    def __init__(
        self,
        catalogue: DecoderCatalogue,
        outbox: Outbox,
        consumer: RequestConsumer,
        redis: Redis,
        *,
        timing: LoopTiming,
        metrics: WorkerMetrics | None = None,
        clock: Clock = Clock(),  # noqa: B008 - it has no state
    ) -> None:
        """``redis`` reads the tokens of completions that another worker began."""
        self.catalogue = catalogue
        self.recent = RecentGeneration(clock.monotonic)
        # For others, and for the other loop of the process, which may have suspects too.
        self.claim_pause_s = 2 * timing.idle_wait_s
        self._outbox, self._consumer, self._redis = outbox, consumer, redis
        self._timing, self._metrics, self._clock = timing, metrics, clock
        self._open: dict[str, _Completion] = {}
        self._alone: _Completion | None = None
        self._alone_tokens = 0  # so many tokens more are computed alone

    @property
    def roots(self) -> Collection[str]:
        """See `Scheduler`."""
        return self.catalogue.roots

    @property
    def has_requests(self) -> bool:
        """See `Scheduler`."""
        return bool(self._open)

    @property
    def room(self) -> int:
        """See `Scheduler`."""
        return self._timing.backlog_rows - len(self._open)

    @property
    def takes_background(self) -> bool:
        """See `Scheduler`. Completions that were begun go on beside others that come later."""
        entries = [completion.entry for completion in self._open.values()]
        return len(entries) < BACKGROUND_COMPLETIONS and all(entry.is_background for entry in entries)

    @property
    def background_room(self) -> bool:
        """See `Scheduler`."""
        return self.takes_background

    def add(self, entry: Entry, *, alone: bool = False) -> None:
        """Hand the request to the engine of its root. See `Scheduler`."""
        request = entry.request
        model = ModelIdentity(request.tenant, request.hplm, request.version, request.digest)
        root = self.catalogue.root_of(model, request.root)
        if request.generate is None:
            raise HplmError("inference_failed", f"{model} generates: it has no other outputs")
        # Another worker may have died after some tokens.
        sent = tokens_sent(self._redis, request.id) if entry.is_suspect else ()
        root.engine.add(
            GenerationRequest(
                id=request.id,
                model=model,
                prompt=tuple(np.frombuffer(request.sequences[0].ids, "<i4").tolist()),
                sampling=request.generate,
                completion=sent,
                deadline=request.deadline,
            )
        )
        completion = self._open[request.id] = _Completion(entry, root.engine, root.number_format)
        if alone:
            self._alone, self._alone_tokens = completion, SUSPECT_TOKENS

    def drop(self, answered: Collection[Address]) -> None:
        """See `Scheduler`."""
        for completion in self._open.values():
            if completion.entry.address in answered:
                completion.engine.cancel(completion.id)

    def step(self, receive: Callable[[], None]) -> bool:
        """Compute a step of each root that has requests; check the blocks of the others."""
        for root in self.catalogue.working():
            if root.engine.is_idle:
                root.engine.check_integrity()
            else:
                self._compute(root.engine)
        return bool(self._open)

    def step_alone(self) -> bool:
        """Compute a step of the completion that was added alone."""
        completion, self._alone = self._alone, None
        if completion is None or self._open.get(completion.id) is not completion:
            return False  # it was refused, has ended, or another worker has claimed it
        unsent = len(completion.tokens)
        self._compute(
            completion.engine, only=completion.id
        )  # which may end others: they are cancelled or late
        self._alone_tokens -= len(completion.tokens) - unsent
        if self._alone_tokens > 0 and completion.reply is None:
            self._alone = completion
        return self._alone is not None

    def send(self) -> None:
        """Send the tokens, and the replies behind the last ones. What cannot be sent stays for the next call.
        Raises RedisError."""
        news = [one for one in self._open.values() if one.tokens or one.reply is not None]
        if not news:
            return
        results = self._consumer.append_all(
            [Continuation(one.entry.address, one.entry.request, tuple(one.tokens), one.reply) for one in news]
        )
        errors = [self._sent(one, result) for one, result in zip(news, results, strict=True)]
        for error in errors:
            if error is not None:
                raise error

    def _compute(self, engine: GenerationEngine, *, only: str = "") -> None:
        """Compute one step, of ``only`` one request or of all; its time is shared equally by those that it
        has tokens of."""
        begun, started = self._clock.time(), self._clock.monotonic()
        events = engine.step(only)
        took = self._clock.monotonic() - started
        if self._metrics is not None:
            self._metrics.step_computed(seconds=took)
        share = took / max(1, len(events))
        self.recent.generated(sum(event.token is not None for event in events))
        for event in events:
            completion = self._open.get(event.request_id)
            if completion is None:
                continue  # claimed by another worker meanwhile
            completion.compute_s += share
            completion.first_step_at = completion.first_step_at or begun
            self._take(completion, event, busy_ms=1000 * share)

    def _take(self, completion: _Completion, event: TokenEvent, *, busy_ms: float) -> None:
        if event.token is not None:
            completion.tokens.append(
                GeneratedToken(
                    index=event.index,
                    token=event.token,
                    logprob=event.logprob,
                    alternatives=event.alternatives,
                    number_format=completion.number_format,
                    busy_ms=round(busy_ms, 3),
                )
            )
            completion.number_format = ""
            if event.index == 0:
                self.recent.began(max(0.0, self._clock.time() - completion.entry.request.enqueued_at))
        if event.finish_reason is not None:
            completion.reply = self._reply(completion, event)
            self._outbox.record(completion.entry, completion.reply)

    def _reply(self, completion: _Completion, event: TokenEvent) -> InferReply:
        request = completion.entry.request
        if event.error is not None:
            return failure(completion.entry, event.error.code, event.error.message)
        assert event.finish_reason is not None
        if event.finish_reason is FinishReason.CANCELLED:
            return cancellation(completion.entry)
        self.recent.ended()
        tokens = event.index + (event.token is not None)
        return InferReply(
            id=request.id,
            ok=True,
            model=request.model,
            timings_ms=completion.timings(self._clock.time()),
            completion=CompletionEnd(event.finish_reason, tokens),
        )

    def _sent(self, completion: _Completion, result: bool | RedisError) -> RedisError | None:
        """Apply the result of sending a completion's tokens and reply. Returns an error that is worth another
        try."""
        entry = completion.entry
        if isinstance(result, ResponseError) and str(result).startswith("GAP"):
            log.error("tokens of a completion were lost: %s", result, extra=identity_fields(entry.request))
            message = "tokens that were generated are lost: the queue has dropped them"
            self._forget(completion)
            self._outbox.add(entry, failure(entry, "inference_failed", message))
        elif isinstance(result, RedisError):
            return result
        elif not result or completion.reply is not None:
            self._forget(completion)
        else:
            completion.tokens.clear()
        return None

    def _forget(self, completion: _Completion) -> None:
        completion.engine.cancel(completion.id)
        del self._open[completion.id]
