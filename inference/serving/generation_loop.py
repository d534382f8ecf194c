"""The worker's loop for generative models: receive prompts, compute a step, send its tokens."""

import logging
import threading
import time
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
from inference.serving.answer_log import log_answer
from inference.serving.catalogue import NotServedError
from inference.serving.decoders import DecoderCatalogue
from inference.serving.intake import cancellation, expiry
from inference.serving.loop_timing import Clock, LoopTiming
from inference.serving.metrics import WorkerMetrics

log = logging.getLogger(__name__)

BACKGROUND_COMPLETIONS: Final = 8
"""So many completions of the background are under way at most."""
SUSPECT_TOKENS: Final = 8
"""A suspect is computed alone until it has so many tokens more than when its worker died."""


@dataclass(slots=True, eq=False)
class _Completion:
    """A request under way: tokens that are not sent yet, and the reply once there is one. number_format: of
    its root, "" once a token names it. alone: so many tokens more are computed alone, for it is a suspect.
    compute_s: its share of the steps."""

    entry: Entry
    engine: GenerationEngine
    number_format: str
    alone: int = 0
    tokens: list[GeneratedToken] = field(default_factory=list)
    reply: InferReply | None = None
    first_step_at: float | None = None
    compute_s: float = 0.0

    @property
    def has_news(self) -> bool:
        return bool(self.tokens) or self.reply is not None

    def timings(self, now: float) -> TimingsMs:
        """As of an `InferReply` that is given now."""
        enqueued, started = self.entry.request.enqueued_at, self.first_step_at or now
        return TimingsMs(
            queue=round(max(0.0, started - enqueued) * 1000, 3),
            compute=round(self.compute_s * 1000, 3),
            total=round(max(0.0, now - enqueued) * 1000, 3),
        )


class GenerationLoop:
    """Continues prompts until told to stop; begins those of the background when no others are under way. One
    thread; others may read ``iterations``, ``last_error`` and ``is_drained``, and set ``paused``: then it
    takes in no more."""

    def __init__(
        self,
        consumer: RequestConsumer,
        redis: Redis,
        catalogue: DecoderCatalogue,
        *,
        timing: LoopTiming,
        alone: "threading.Lock | None" = None,
        metrics: WorkerMetrics | None = None,
        clock: Clock = Clock(),  # noqa: B008 - it has no state
    ) -> None:
        """``redis`` reads the tokens of completions that another worker began. ``alone``: held by the loop of
        the process that computes a suspect."""
        self.iterations = 0
        self.last_error = ""
        self.paused = threading.Event()
        self._consumer, self._redis, self._catalogue = consumer, redis, catalogue
        self._timing, self._metrics, self._clock = timing, metrics, clock
        self._alone = alone or threading.Lock()
        self._suspect: _Completion | None = None
        self._open: dict[str, _Completion] = {}
        self._unpublished: list[Entry] = []
        self._refused: list[tuple[Entry, InferReply]] = []
        self._next_claim = {False: 0.0, True: 0.0}  # of the background: True
        self._next_drop = 0.0
        self._taking = True

    @property
    def has_unanswered(self) -> bool:
        """Whether requests wait for their end."""
        return bool(self._open or self._unpublished or self._refused)

    @property
    def is_drained(self) -> bool:
        """Whether it takes in no more, and all that it had is answered; any thread may ask."""
        return not (self._taking or self.has_unanswered)

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop``, then end what was taken in."""
        while not stop.is_set() or self.has_unanswered:
            try:
                taking = not (stop.is_set() or self.paused.is_set())
                if not self.step(taking=taking) and not taking:
                    time.sleep(self._timing.idle_wait_s)
                self.last_error = ""
            except RedisError as error:
                log.warning("the queue cannot be reached: %s", error)
                self.last_error = str(error)
                time.sleep(self._timing.lost_wait_s)

    def step(self, *, taking: bool = True) -> bool:
        """Receive, compute one step of each root, send its tokens; of a suspect alone, as long as there is
        one. False when there was nothing to do. Raises redis errors with nothing forgotten."""
        self.iterations += 1
        self._taking = taking
        self._catalogue.keep_up()
        self._send()
        if self._suspect is None:
            self._receive(taking=taking)
        self._drop_cancelled()
        if self._suspect is not None:
            self._compute(self._suspect.engine, only=self._suspect.entry.request.id)
        else:
            for root in self._catalogue.working():
                if not root.engine.is_idle:
                    self._compute(root.engine)
                else:
                    root.engine.check_integrity()
        self._send()
        self._clear_suspect()
        return bool(self._open)

    def _receive(self, *, taking: bool) -> None:
        """Admit what has come: one that another worker left behind, or new ones."""
        entries, self._unpublished = self._unpublished, []
        if taking:
            self._consumer.follow(self._catalogue.roots)
            self._claim(background=False)
        if taking and self._suspect is None:
            entries += self._received()
            entries += [] if entries else self._received_background()
        for entry in entries:
            if not entry.is_suspect:
                self._admit(entry)
            elif self._alone.acquire(blocking=False):
                self._admit_alone(entry)
            else:
                self._unpublished.append(entry)

    def _claim(self, *, background: bool) -> bool:
        """Admit a request that another worker left behind, of the background or the others. Returns whether
        there was one."""
        if self._clock.monotonic() < self._next_claim[background] or not self._alone.acquire(blocking=False):
            return False
        entries: list[Entry] = []
        try:
            entries = self._consumer.claim_abandoned(1, background=background)
        finally:
            if not entries:
                self._alone.release()
        if not entries:
            self._next_claim[background] = self._clock.monotonic() + self._timing.claim_every_s
        for entry in entries:
            own = identity_fields(entry.request)
            log.warning(
                "request %s is delivered for the %d. time", entry.request.id, entry.deliveries, extra=own
            )
            self._admit_alone(entry)
        return bool(entries)

    def _admit_alone(self, entry: Entry) -> None:
        """Admit a suspect, which is computed alone until it is cleared: if it killed a worker, it must not
        take others with it."""
        try:
            self._admit(entry)
        except RedisError:
            self._unpublished.append(entry)  # to be tried again
            raise
        finally:
            self._suspect = self._open.get(entry.request.id)
            if self._suspect is None:
                self._release(entry)

    def _clear_suspect(self) -> None:
        """Compute the suspect beside others from now on, if it has ended or gone on for long enough."""
        suspect = self._suspect
        if suspect is not None and (suspect.alone <= 0 or suspect.entry.request.id not in self._open):
            self._release(suspect.entry)

    def _release(self, entry: Entry) -> None:
        """Clear a suspect. Others, also of the other loop, have their turn before the next one."""
        self._suspect = None
        self._alone.release()
        after = self._clock.monotonic() + 2 * self._timing.idle_wait_s
        self._next_claim = {queue: max(after, at) for queue, at in self._next_claim.items()}
        self._consumer.clear(entry)

    def _received(self) -> list[Entry]:
        """New requests; waits for the first one if there is nothing to compute."""
        room = self._timing.backlog_rows - len(self._open)
        wait_s = 0.0 if self._open else self._timing.idle_wait_s
        return self._consumer.read(room, int(wait_s * 1000)) if room > 0 else []

    def _received_background(self) -> list[Entry]:
        """A request of each root's background, unless another worker left one behind, which is admitted.
        Those that were begun go on beside others that come later."""
        under_way = [completion.entry for completion in self._open.values()]
        if len(under_way) >= BACKGROUND_COMPLETIONS or not all(entry.is_background for entry in under_way):
            return []
        return [] if self._claim(background=True) else self._consumer.read_background()

    def _admit(self, entry: Entry) -> None:
        """Hand the request to its engine, or refuse it."""
        request = entry.request
        if self._clock.time() >= request.deadline:
            self._refuse(entry, expiry(entry))
            return
        try:
            self._add(entry)
        except HplmError as error:
            if isinstance(error, NotServedError) and self._catalogue.is_behind:
                self._unpublished.append(entry)
                return
            self._refuse(entry, InferReply.failure(request.id, request.model, error.code, error.message))

    def _add(self, entry: Entry) -> None:
        request = entry.request
        model = ModelIdentity(request.tenant, request.hplm, request.version, request.digest)
        root = self._catalogue.root_of(model, request.root)
        if request.generate is None:
            raise HplmError("inference_failed", f"{model} generates: it has no other outputs")
        prompt = tuple(np.frombuffer(request.sequences[0].ids, "<i4").tolist())
        # Another worker may have died after some tokens.
        sent = tokens_sent(self._redis, request.id) if entry.is_suspect else ()
        root.engine.add(
            GenerationRequest(
                id=request.id,
                model=model,
                prompt=prompt,
                sampling=request.generate,
                completion=sent,
                deadline=request.deadline,
            )
        )
        self._open[request.id] = _Completion(
            entry, root.engine, root.number_format, alone=SUSPECT_TOKENS * entry.is_suspect
        )

    def _refuse(self, entry: Entry, reply: InferReply) -> None:
        self._note(entry, reply)
        self._refused.append((entry, reply))

    def _drop_cancelled(self) -> None:
        """Compute no more of what has its answer in the queue already."""
        if self._clock.monotonic() < self._next_drop:
            return
        self._next_drop = self._clock.monotonic() + self._timing.drop_every_s
        answered = self._consumer.answered()
        for completion in self._open.values():
            if completion.entry.address in answered:
                completion.engine.cancel(completion.entry.request.id)

    def _compute(self, engine: GenerationEngine, *, only: str = "") -> None:
        """One step, of ``only`` one request or of all, shared equally by those that it has tokens of."""
        begun, started = self._clock.time(), self._clock.monotonic()
        events = engine.step(only)
        took = self._clock.monotonic() - started
        if self._metrics is not None:
            self._metrics.step_computed(seconds=took)
        share = took / max(1, len(events))
        for event in events:
            completion = self._open.get(event.request_id)
            if completion is None:
                continue  # claimed by another worker meanwhile
            completion.compute_s += share
            completion.first_step_at = completion.first_step_at or begun
            completion.alone -= 1
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
        if event.finish_reason is not None:
            completion.reply = self._reply(completion, event)
            self._note(completion.entry, completion.reply)

    def _reply(self, completion: _Completion, event: TokenEvent) -> InferReply:
        request = completion.entry.request
        if event.error is not None:
            return InferReply.failure(request.id, request.model, event.error.code, event.error.message)
        assert event.finish_reason is not None
        if event.finish_reason is FinishReason.CANCELLED:
            return cancellation(completion.entry)
        tokens = event.index + (event.token is not None)
        return InferReply(
            id=request.id,
            ok=True,
            model=request.model,
            timings_ms=completion.timings(self._clock.time()),
            completion=CompletionEnd(event.finish_reason, tokens),
        )

    def _note(self, entry: Entry, reply: InferReply) -> None:
        # How long the background waits says nothing of how requests are served.
        if self._metrics is not None and not entry.is_background:
            self._metrics.requests_answered([(entry.request, reply)], now=self._clock.time())
        log_answer(entry.request, reply)

    def _send(self) -> None:
        """Send tokens and replies; what cannot be sent stays for the next turn. Raises redis errors."""
        if self._refused:
            self._consumer.answer_all(self._refused)
            self._refused = []
        news = [completion for completion in self._open.values() if completion.has_news]
        if not news:
            return
        said = self._consumer.append_all(
            [Continuation(one.entry.address, one.entry.request, tuple(one.tokens), one.reply) for one in news]
        )
        errors = [self._sent(one, each) for one, each in zip(news, said, strict=True)]
        for error in errors:
            if error is not None:
                raise error

    def _sent(self, completion: _Completion, said: bool | RedisError) -> RedisError | None:
        """Take note of what became of a completion's news; the error that is worth another try."""
        request = completion.entry.request
        if isinstance(said, ResponseError) and str(said).startswith("GAP"):
            log.error("tokens of a completion were lost: %s", said, extra=identity_fields(request))
            message = "tokens that were generated are lost: the queue has dropped them"
            self._forget(completion)
            self._refuse(
                completion.entry,
                InferReply.failure(request.id, request.model, "inference_failed", message),
            )
        elif isinstance(said, RedisError):
            return said
        elif not said or completion.reply is not None:
            self._forget(completion)
        else:
            completion.tokens.clear()
        return None

    def _forget(self, completion: _Completion) -> None:
        completion.engine.cancel(completion.entry.request.id)
        del self._open[completion.entry.request.id]
