"""One infer request, from the question to the answer; the REST views and the UI all call this."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import InterfaceError, OperationalError
from structlog.contextvars import bind_contextvars

from inference.api.admission import no_room
from inference.api.answers import answer_of, failure_of
from inference.api.client import gateway, reaching_the_queue
from inference.api.hang_ups import cancel_on_hang_up
from inference.api.question import Question
from inference.api.rates.spending import tokens_spent
from inference.api.validation import REQUEST_ID_HEADER
from inference.number_format import format_seconds
from inference.queueing.log_fields import reply_fields
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.replies import NoReply
from inference.queueing.transport import CallOutstanding, QueueFull
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database
from tenants.usage.services.usage import usage_record

log = logging.getLogger(__name__)


def infer(asked: Question, *, environ: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer, as the JSON value that clients get.

    With the WSGI `environ` of who waits for it the request is cancelled when they hang up. Raises HmiError:
    `rate_limited`, and `conflict`, `worker_unavailable` or `queue_full` when nothing was accepted; after that
    `cancelled`, `deadline_exceeded` and whatever the inference worker reports.
    """

    def watch(request: InferRequest) -> None:
        cancel_on_hang_up(environ or {}, partial(take_back, asked, request), request_id=asked.request_id)

    release_database()
    reply = None
    with suppress(NoReply), tokens_spent(asked.limits.tokens, asked.guessed_tokens) as tokens:
        reply = _ask(asked, watch)
        tokens.spent = reply.usage.tokens
    return conclude(asked, reply)


def conclude(asked: Question, reply: InferReply | None) -> dict[str, Any]:
    """The JSON value of the answer, once the request is counted. Raises HmiError: ``deadline_exceeded``
    without a reply, or what the reply says."""
    if reply is None:
        _count(asked, None)
        message = f"There was no answer within {format_seconds(asked.asking.seconds)}."
        raise HmiError(ErrorCode.DEADLINE_EXCEEDED, message)
    bind_contextvars(**reply_fields(reply))
    failure = failure_of(reply, asked=asked.model, inputs=len(asked.texts))
    _count(asked, reply, failed=failure is not None)
    if failure is not None:
        raise failure
    return answer_of(reply, asked.request_id)


def cancel(*, tenant: Tenant, request_id: str) -> bool:
    """Whether the tenant's request had no answer yet: it has one now, `cancelled`. Raises HmiError when the
    queue cannot be reached."""
    with reaching_the_queue():
        return gateway().client.queue.cancel(tenant.slug, request_id)


def take_back(asked: Question, request: InferRequest) -> bool:
    """`cancel`, but never what was asked by the same name since."""
    with reaching_the_queue():
        return gateway().client.queue.cancel(asked.tenant.slug, asked.request_id, request=request.id)


def name_taken(asked: Question) -> HmiError:
    """What a caller is told whose other request has the same name."""
    message = f"The request {asked.request_id} has no answer yet; another one needs another id."
    return HmiError(ErrorCode.CONFLICT, message, param=REQUEST_ID_HEADER)


def _ask(asked: Question, on_accepted: Callable[[InferRequest], None]) -> InferReply:
    with reaching_the_queue():
        door = gateway()
        door.admit(asked.asking)
        try:
            return door.client.ask(asked.model, asked.texts, on_accepted=on_accepted, **asked.how)
        except QueueFull as full:
            raise no_room(full, asked.asking, door.standing) from None
        except CallOutstanding:
            raise name_taken(asked) from None


def _count(asked: Question, reply: InferReply | None, *, failed: bool = True) -> None:
    """What was computed is answered, also when the database has gone meanwhile and nothing can be counted."""
    try:
        usage_record(
            tenant=asked.tenant,
            model_name=asked.model.hplm,
            inputs=len(asked.texts),
            tokens=reply.usage.tokens if reply else 0,
            failed=failed,
            key_prefix=asked.key.prefix if asked.key else "",
            busy_ms=reply.timings_ms.busy if reply else 0.0,
        )
    except (OperationalError, InterfaceError) as error:
        log.error("A request of %s for %s was not counted: %s", asked.model.tenant, asked.model.hplm, error)
