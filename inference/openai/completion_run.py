"""The completions of one request: submitted together, read as their tokens come, counted at their end."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Final

from django.db import InterfaceError, OperationalError
from redis.exceptions import RedisError

from inference.api.admission import AdmissionRequest, Gateway, admit, gateway, reaching_the_queue
from inference.api.infer import failure_of, is_free, is_of_today
from inference.api.rates.spending import charge, refund, spend
from inference.api.request_trace import RequestTrace
from inference.api.submitter import refusal_of
from inference.number_format import format_seconds
from inference.openai.choices import Arrival, Arrivals, Delta
from inference.openai.completions import Usage
from inference.openai.prepared_completion import PreparedCompletion
from inference.queueing.messages import GeneratedToken, InferReply, InferRequest
from inference.queueing.replies import GRACE_S
from inference.queueing.token_stream import CompletionLost, CompletionReader
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record, usage_record

log = logging.getLogger(__name__)

CompletedChoices = list[list[Delta]]
"""All deltas of each choice."""
OK: Final = "ok"
CHARGE_EVERY: Final = 16
"""Generated tokens are charged in portions of so many."""
CHECK_CALLER_EVERY_S: Final = 2.0
"""Whoever sent the request may be refused before it has ended, and then ends it. If no token came since, the
queue is asked whether it still has the completion."""


class CompletionRun:
    """All choices of one request, from their submission to `close`, which any thread may call.

    Each choice is a request of the queue. The first has the request's own name; if it is cancelled by that
    name, all are. ``trace`` is told how many tokens there were; it is recorded at the end of a stream.
    ``check_caller`` raises HmiError once the request would be refused.
    """

    def __init__(
        self,
        prepared: PreparedCompletion,
        trace: RequestTrace | None = None,
        check_caller: Callable[[], None] | None = None,
    ) -> None:
        self.prepared = prepared
        self._trace = trace
        self._check_caller = check_caller
        self.arrivals = Arrivals()
        self._choices = [prepared.choice(index) for index in range(len(prepared.sampling))]
        self._requests: list[InferRequest] = []
        self._readers: list[CompletionReader] = []
        self._expected = ExitStack()
        self._lock = threading.Lock()
        self._is_open = self._counted = self._reserved = self._accepted = False
        self._charged = 0
        self._give_up_at = self._started_at = self._checked_at = time.monotonic()
        self._failure: BaseException | None = None

    @property
    def ended(self) -> bool:
        """Whether the last delta of every choice was given."""
        return all(choice.ended for choice in self._choices)

    @property
    def seconds_left(self) -> float:
        """Until nothing more is waited for."""
        return max(0.0, self._give_up_at - time.monotonic())

    @property
    def seconds_to_check(self) -> float:
        """Until `check_caller` is due; 0 when it is."""
        return max(0.0, self._checked_at + CHECK_CALLER_EVERY_S - time.monotonic())

    def check_caller(self) -> None:
        """Raise HmiError if whoever sent the request may not send it any more. Asks the database: not for an
        event loop."""
        self._checked_at = time.monotonic()
        if self._check_caller is None:
            return
        try:
            self._check_caller()
        except (OperationalError, InterfaceError) as error:
            log.error("Who follows a completion could not be checked: %s", error)
        finally:
            release_database()

    @property
    def usage(self) -> Usage:
        """The tokens until now."""
        return Usage(self.prepared.prompt_tokens, sum(choice.tokens for choice in self._choices))

    @property
    def owes(self) -> bool:
        """Whether so many tokens came since they were charged last that `charge` is due."""
        return self.usage.completion_tokens - self._charged >= CHARGE_EVERY

    def charge(self) -> None:
        """Charge the tokens that came since to the limits by the minute. Asks Valkey if a limit is exhausted:
        not for an event loop."""
        with self._lock:
            generated = self.usage.completion_tokens
            due, self._charged = generated - self._charged, generated
        if due:
            charge(self.prepared.limits.tokens, due)

    def submit(self) -> None:
        """Submit every choice. Raises HmiError: `rate_limited`, `quota_exceeded`, `conflict`,
        `worker_unavailable` or `queue_full` when nothing was accepted."""
        release_database()
        prepared = self.prepared
        self._counted = spend(prepared.limits.tokens, prepared.prompt_tokens)
        self._started_at = time.monotonic()
        self._give_up_at = self._started_at + prepared.admission.seconds + GRACE_S
        self._is_open = True
        try:
            self._reserved = spend([prepared.daily])
            with reaching_the_queue():
                self._submit(gateway())
            self._accepted = True
        except BaseException as error:
            self.fail(error)
            self.close()
            raise

    def _submit(self, connection: Gateway) -> None:
        _admit(connection, self.prepared.admission)
        self._requests = [self._request(connection, index) for index in range(len(self._choices))]
        self._readers = [CompletionReader(connection.client.redis, each.id) for each in self._requests]
        for index, request in enumerate(self._requests):
            put = partial(self.arrivals.put, index)
            self._expected.enter_context(connection.client.expecting(request, put, put))
        for outcome in connection.client.queue.submit_all(self._requests):
            if isinstance(outcome, Exception):
                name, admission = self.prepared.request_id, self.prepared.admission
                raise refusal_of(outcome, name, admission, connection.state)

    def _request(self, connection: Gateway, index: int) -> InferRequest:
        prepared, name = self.prepared, self.prepared.request_id
        return connection.client.request(
            prepared.model,
            (prepared.sequence_of(index),),
            root=prepared.admission.root,
            seconds=prepared.admission.seconds,
            call=f"{name}-{index}" if index else name,
            generate=prepared.sampling[index],
        )

    def accept(self, arrived: Sequence[Arrival]) -> list[Delta]:
        """What has come, as deltas that are not empty. Raises HmiError if a choice failed, and
        `deadline_exceeded` if nothing came and there is no time left."""
        if not arrived and not self.seconds_left:
            message = f"The request timed out after {format_seconds(self.prepared.admission.seconds)}."
            raise HmiError(ErrorCode.DEADLINE_EXCEEDED, message)
        return [delta for index, item in arrived if (delta := self._accept(index, item))]

    def read(self) -> list[Delta]:
        """What the choices have by now, after a silence, as deltas that are not empty. Raises HmiError if the
        server has lost one. Asks Valkey: not for an event loop."""
        deltas = list[Delta]()
        with suppress(RedisError):  # it may be back before the deadline
            for index in range(len(self._choices)):
                if delta := self._accept(index):
                    deltas.append(delta)
        return deltas

    def _accept(self, index: int, item: GeneratedToken | InferReply | None = None) -> Delta:
        """What came of a choice; without ``item``, all that there is."""
        choice, reader = self._choices[index], self._readers[index]
        if choice.ended:
            return Delta(index)
        try:
            if item is None:
                events = reader.read()
            else:
                with reaching_the_queue():
                    events = reader.accept(item)
        except CompletionLost as error:
            message = "Tokens of the answer were lost. Send the request again."
            raise HmiError(ErrorCode.INFERENCE_FAILED, message) from error
        if reader.reply is not None:
            failure = failure_of(reader.reply, asked=self.prepared.model, sequences=0)
            if failure is not None:
                raise failure
        return choice.accept(events)

    async def next_deltas(self, silence_s: float) -> list[Delta]:
        """The next deltas; none after a silence of so many seconds, if the queue still has the completion.
        Raises HmiError."""
        silent_until, silent = time.monotonic() + silence_s, False
        while not silent:
            if not self.seconds_to_check:
                await asyncio.to_thread(self.check_caller)
            left = silent_until - time.monotonic()
            silent = left <= 0
            if silent:
                deltas = await asyncio.to_thread(self.read)
            else:
                wait_s = min(left, self.seconds_left, self.seconds_to_check)
                deltas = self.accept(await self.arrivals.take(wait_s))
            if cut := [delta.index for delta in deltas if self.is_cut(delta)]:
                await asyncio.to_thread(self.cancel, cut)
            if self.owes:
                await asyncio.to_thread(self.charge)
            if deltas:
                return deltas
        return []

    async def complete(self) -> CompletedChoices:
        """The deltas of all choices, once they have ended. Raises HmiError."""
        deltas: CompletedChoices = [[] for _ in self.prepared.sampling]
        while not self.ended:
            for delta in await self.next_deltas(CHECK_CALLER_EVERY_S):
                deltas[delta.index].append(delta)
        return deltas

    @contextmanager
    def closed_at_end(self) -> Iterator[None]:
        """Close the run after the block, and note the error that leaves it."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            self.close()

    def is_cut(self, delta: Delta) -> bool:
        """Whether the choice ended with this delta, at a stop string, and is still being generated."""
        return delta.finish_reason is not None and not self._readers[delta.index].ended

    def cancel(self, indices: Sequence[int] | None = None) -> None:
        """Take back the choices of these numbers, or all, as far as they have no reply yet."""
        wanted = range(len(self._requests)) if indices is None else indices
        with reaching_the_queue():
            for request in [self._requests[index] for index in wanted if not self._readers[index].ended]:
                gateway().client.queue.cancel(request.tenant, request.call, request=request.id)

    def fail(self, error: BaseException) -> None:
        """Note why the request came to nothing, for the figures."""
        self._failure = error

    def close(self) -> None:
        """Take back what has not ended, and count the request if it was accepted. Called again it does
        nothing."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        try:
            self.cancel()
        except HmiError:
            pass  # logged; the workers give up at the deadline
        finally:
            self._expected.close()
            self._count()
            release_database()

    def _count(self) -> None:
        prepared, usage, code = self.prepared, self.usage, self._code()
        generated = usage.completion_tokens
        self.charge()
        if not generated and self._counted and (self._failure is None or is_free(self._failure)):
            refund(prepared.limits.tokens, prepared.prompt_tokens)
        if self._reserved and self._failure is not None and not is_of_today(self._failure):
            refund([prepared.daily], 1)
        if self._accepted:
            self._record(usage, code)

    def _record(self, usage: Usage, code: str) -> None:
        """Count what an accepted request took, and log how it ended. One without an answer is counted by its
        trace."""
        prepared, generated = self.prepared, usage.completion_tokens
        try:
            usage_record(
                tenant=prepared.tenant,
                model_name=prepared.model.hplm,
                requests=int(code == OK),
                inputs=len(prepared.prompts),
                tokens=prepared.prompt_tokens + generated if generated else 0,
                generated_tokens=generated,
                key_prefix=prepared.key.prefix if prepared.key else "",
                busy_ms=sum(reader.busy_ms for reader in self._readers),
            )
            if code == OK:
                answers_record(
                    tenant=prepared.tenant,
                    model_name=prepared.model.hplm,
                    version=prepared.model.version,
                    count=AnswerCount(requests=1),
                )
        except (OperationalError, InterfaceError) as error:
            log.error("A request of %s was not counted: %s", prepared.model.tenant, error)
        if self._trace is not None:
            self._trace.generated_tokens = generated
            if isinstance(self._failure, HmiError):
                self._trace.error = self._failure
            if self._trace.deferred:
                self._trace.record(200, "" if code == OK else code)
        seconds = time.monotonic() - self._started_at
        fields = {"code": code, "generated": generated, "ms": round(1000 * seconds, 1)}
        log.info("completion", extra=fields)

    def _code(self) -> str:
        """How the request ended."""
        if self._failure is None:
            return OK if self.ended else str(ErrorCode.CANCELLED)
        return str(self._failure.code if isinstance(self._failure, HmiError) else ErrorCode.INTERNAL)


def _admit(connection: Gateway, request: AdmissionRequest) -> None:
    """Raises HmiError. What was so a moment ago refuses nobody."""
    try:
        admit(request, connection.state)
    except HmiError:
        connection.look()
        admit(request, connection.state)
