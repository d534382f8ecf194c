"""One infer request, from what is prepared to the answer; the REST views and the pages all call this."""

import logging
from collections.abc import Mapping
from typing import Any

from django.db import InterfaceError, OperationalError
from structlog.contextvars import bind_contextvars

from inference.api.answers import answer_of, failure_of
from inference.api.client import gateway, reaching_the_queue
from inference.api.prepared_request import PreparedRequest
from inference.api.rates.spending import refund, spend
from inference.api.submitter import ON_HANG_UP, submitter
from inference.number_format import format_seconds
from inference.queueing.log_fields import reply_fields
from inference.queueing.messages import InferReply
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database
from tenants.usage.services.usage import usage_record

log = logging.getLogger(__name__)


def infer(prepared: PreparedRequest, *, environ: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer, as the JSON value that clients get.

    With the WSGI `environ` of who waits for it the request is cancelled when they hang up. Raises HmiError:
    `rate_limited`, and `conflict`, `worker_unavailable` or `queue_full` when nothing was accepted; after that
    `cancelled`, `deadline_exceeded` and whatever the inference worker reports.
    """
    release_database()
    counted = spend(prepared.limits.tokens, prepared.tokens)
    try:
        with submitter().submit(prepared) as submission:
            if environ and (watch := environ.get(ON_HANG_UP)):
                watch(submission.hang_up)
            reply = submission.wait()
        return conclude(prepared, reply)
    except BaseException as error:
        if counted and is_free(error):
            refund(prepared.limits.tokens, prepared.tokens)
        raise


def is_free(error: BaseException) -> bool:
    """Whether the tokens of a request that ended so are given back: those of all but what ran out of time,
    which may have been computed."""
    return not (isinstance(error, HmiError) and error.code is ErrorCode.DEADLINE_EXCEEDED)


def conclude(prepared: PreparedRequest, reply: InferReply | None) -> dict[str, Any]:
    """The JSON value of the answer, once the request is counted. Raises HmiError: ``deadline_exceeded``
    without a reply, or what the reply says."""
    if reply is None:
        _count(prepared, None)
        message = f"There was no answer within {format_seconds(prepared.admission.seconds)}."
        raise HmiError(ErrorCode.DEADLINE_EXCEEDED, message)
    bind_contextvars(**reply_fields(reply))
    answer = None
    try:
        if (
            failure := failure_of(reply, asked=prepared.model, sequences=len(prepared.sequences))
        ) is not None:
            raise failure
        answer = answer_of(prepared, reply)
    finally:
        _count(prepared, reply, failed=answer is None)
    return answer


def cancel(*, tenant: Tenant, request_id: str) -> bool:
    """Whether the tenant's request had no answer yet: it has one now, `cancelled`. Raises HmiError when the
    queue cannot be reached."""
    with reaching_the_queue():
        return gateway().client.queue.cancel(tenant.slug, request_id)


def _count(prepared: PreparedRequest, reply: InferReply | None, *, failed: bool = True) -> None:
    """What was computed is answered, also when the database has gone meanwhile and nothing can be counted."""
    try:
        usage_record(
            tenant=prepared.tenant,
            model_name=prepared.model.hplm,
            inputs=len(prepared.encoded),
            tokens=0 if failed else prepared.tokens,
            failed=failed,
            key_prefix=prepared.key.prefix if prepared.key else "",
            busy_ms=reply.timings_ms.busy if reply else 0.0,
        )
    except (OperationalError, InterfaceError) as error:
        log.error(
            "A request of %s for %s was not counted: %s", prepared.model.tenant, prepared.model.hplm, error
        )
