"""The ASGI application that answers direct infer requests, and passes all others to Django."""

import asyncio
import contextvars
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError
from structlog.contextvars import bind_contextvars, clear_contextvars

from hmi_site.direct.asgi_messages import DirectAnswer, DirectRequest, read_request
from hmi_site.http.errors import internal_error
from hmi_site.http.request_body import BODY, DISCONNECT, receive_body
from inference.api.infer import conclude, is_free, is_of_today
from inference.api.prepared_request import PreparedRequest
from inference.api.rates.limits import Limit
from inference.api.rates.spending import local_buckets, refund, spend
from inference.api.submitter import Submission, submitter
from inference.queueing.log_fields import reply_fields
from inference.queueing.messages import InferReply
from tenants.base.errors import HmiError
from tenants.base.scope import empty_scope
from tenants.base.ttl_cache import CacheMiss, cached_only
from tenants.base.upload_concurrency import release_database

log = logging.getLogger(__name__)

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LONG_TOKENS: Final = 4096
"""Composing the answer to more than these takes milliseconds, which would block the event loop."""
MOST_LOOK_UPS: Final = 8
"""Requests that look something up in a thread at a time, waiting ones included."""

Result = TypeVar("Result")


class Direct:
    """``others`` answers requests that are not direct. Blocking work runs in ``threads``."""

    def __init__(self, others: Application, *, threads: Executor) -> None:
        self._others, self._threads = others, threads
        self._looking = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        request = read_request(scope)
        # Without an interval each request writes its usage to the database, which blocks.
        if request is None or not settings.HMI_USAGE_INTERVAL_S:
            await self._others(scope, receive, send)
            return
        answer = DirectAnswer(request.request_id or uuid.uuid4().hex)
        body = await receive_body(scope, receive)
        if body.error is None and await self._answer(request, body.content, answer, receive):
            for message in answer.messages():
                await send(message)
        else:
            await self._others({**scope, BODY: body}, receive, send)

    async def _answer(
        self, request: DirectRequest, body: bytes, answer: DirectAnswer, receive: Receive
    ) -> bool:
        """Whether ``answer`` was set. If not, nothing has been counted, and the view answers."""
        clear_contextvars()
        bind_contextvars(request_id=answer.request_id)
        try:
            prepared = await self._prepare(request, body, answer.request_id)
            counted, reserved = await self._count(prepared) if prepared is not None else (False, False)
        except (HmiError, OperationalError, InterfaceError):
            prepared = None
        except Exception:
            log.exception("an infer request was handed on")
            prepared = None
        if prepared is None:
            return False
        answer.trace.set_prepared(prepared)
        answer.limits = [*prepared.limits.requests, *prepared.limits.tokens]
        caller = asyncio.create_task(_hang_up(receive))
        failure: BaseException | None = None
        try:
            with submitter().submit(prepared) as submission:
                self._watch(caller, submission)
                reply = await submission.reply()
            await self._conclude(prepared, reply, answer)
        except HmiError as error:
            failure = error
            answer.refusal(error)
        except Exception as error:
            failure = error
            log.exception("an infer request failed")
            answer.refusal(internal_error())
        finally:
            caller.cancel()
            if counted and failure is not None and is_free(failure):
                refund(prepared.limits.tokens, prepared.tokens)
            if reserved and failure is not None and not is_of_today(failure):
                refund([prepared.daily], 1)
        return True

    async def _conclude(
        self, prepared: PreparedRequest, reply: InferReply | None, answer: DirectAnswer
    ) -> None:
        if prepared.tokens <= LONG_TOKENS:
            answer.result(conclude(prepared, reply))
            return
        if reply is not None:
            bind_contextvars(**reply_fields(reply))  # what the thread binds is not seen here
        answer.result(await self._in_thread(conclude, prepared, reply))

    async def _prepare(self, request: DirectRequest, body: bytes, request_id: str) -> PreparedRequest | None:
        try:
            with cached_only():
                return request.prepare(body, request_id)
        except CacheMiss:
            if self._looking >= MOST_LOOK_UPS:
                return None  # Django has more threads for this
        self._looking += 1
        try:
            prepared = await self._in_thread(_look_up, request, body, request_id)
        finally:
            self._looking -= 1
        if prepared is not None:
            bind_contextvars(**prepared.log_fields)  # the thread bound them in its own context
        return prepared

    async def _count(self, prepared: PreparedRequest) -> tuple[bool, bool]:
        """Whether its tokens were counted against the limits, and the request against the day's. Raises
        ``rate_limited`` or ``quota_exceeded``; then nothing is."""
        counted = reserved = False
        try:
            counted = await self._spend(prepared.limits.tokens, prepared.tokens)
            reserved = await self._spend([prepared.daily], 1)
            await self._spend(prepared.limits.requests, 1)
        except BaseException:
            if counted:
                refund(prepared.limits.tokens, prepared.tokens)
            if reserved:
                refund([prepared.daily], 1)
            raise
        return counted, reserved

    async def _spend(self, limits: Sequence[Limit], amount: int) -> bool:
        if not limits:
            return False
        return local_buckets().spend_locally(limits, amount) or await self._in_thread(spend, limits, amount)

    def _watch(self, caller: "asyncio.Task[None]", submission: Submission) -> None:
        def react(caller: "asyncio.Task[None]") -> None:
            if not caller.cancelled():
                submission.hang_up()

        caller.add_done_callback(react)

    async def _in_thread(self, step: Callable[..., Result], *given: Any) -> Result:
        within = partial(contextvars.copy_context().run, step, *given)
        return await asyncio.get_running_loop().run_in_executor(self._threads, within)


def _look_up(request: DirectRequest, body: bytes, request_id: str) -> PreparedRequest | None:
    with empty_scope():
        try:
            return request.prepare(body, request_id)
        finally:
            release_database()


async def _hang_up(receive: Receive) -> None:
    """Returns when the caller has hung up."""
    while (await receive())["type"] != DISCONNECT:
        continue
