"""One infer request, from a tenant's texts to the answer; the REST view and the UI both call this."""

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from redis.exceptions import RedisError

from inference.api.answers import answer_of, failure_of
from inference.api.client import gateway
from inference.api.inputs import GivenInput, check_inputs, fit_inputs
from inference.api.validation import check_miss_policy, check_reference, check_timeout
from inference.queueing.messages import InferInput, InferReply, ModelRef
from inference.queueing.replies import NoReply
from inference.queueing.transport import QueueFull
from tenants.errors import ErrorCode, HmiError
from tenants.models import Tenant
from tenants.services.quotas import quota_check_requests
from tenants.services.usage import usage_record
from versiontree.selectors import resolve_model

log = logging.getLogger(__name__)

RETRY_AFTER_NO_WORKER_S = 5
RETRY_AFTER_FULL_S = 1


def infer(
    *,
    tenant: Tenant,
    reference: str,
    inputs: Sequence[str | Mapping[str, str] | GivenInput],
    timeout_s: float | None = None,
    request_id: str | None = None,
    miss_policy: str | None = None,
) -> dict[str, Any]:
    """What `tenant`'s model `reference` says to each of `inputs`, as the JSON value that clients get.

    An input is a text, or `{"text", "text_pair"}` or `{"question", "context"}` for a model that takes two.
    The caller has checked that whoever asks may act for the tenant, and may choose `miss_policy` if it is
    given. Raises HmiError: bad input, `not_found`,
    `model_not_ready`, `quota_exceeded`, and `worker_unavailable` or `queue_full` when nothing was accepted;
    after that `deadline_exceeded` and whatever the inference worker reports.
    """
    reference, seconds = check_reference(reference), check_timeout(timeout_s)
    given, policy = check_inputs(inputs), check_miss_policy(miss_policy)
    resolved = resolve_model(tenant, reference)
    texts = fit_inputs(given, task=resolved.task, pairs=resolved.pairs)
    quota_check_requests(tenant=tenant)
    model = ModelRef(resolved.tenant_slug, resolved.hplm_name, resolved.version_number, resolved.digest)
    _release_database()
    try:
        reply = _ask(model, texts, seconds, request_id or uuid.uuid4().hex, policy)
    except NoReply:
        _count(tenant, model, len(texts), tokens=0, failed=True)
        message = f"There was no answer within {seconds:g} s."
        raise HmiError(ErrorCode.DEADLINE_EXCEEDED, message) from None
    failure = failure_of(reply, asked=model, inputs=len(texts))
    _count(tenant, model, len(texts), tokens=reply.usage.tokens, failed=failure is not None)
    if failure is not None:
        raise failure
    return answer_of(reply)


def _ask(
    model: ModelRef, inputs: tuple[InferInput, ...], seconds: float, request_id: str, policy: str | None
) -> InferReply:
    try:
        door = gateway()
        if not door.has_ready_worker():
            raise HmiError(
                ErrorCode.WORKER_UNAVAILABLE,
                "No inference worker is ready.",
                retry_after=RETRY_AFTER_NO_WORKER_S,
            )
        return door.client.ask(model, inputs, seconds=seconds, request_id=request_id, miss_policy=policy)
    except QueueFull as full:
        raise HmiError(
            ErrorCode.QUEUE_FULL,
            "Too many requests are waiting; try again in a moment.",
            details={"waiting": full.depth, "yours": full.own, "capacity": settings.HMI_INFER_CAPACITY},
            retry_after=RETRY_AFTER_FULL_S,
        ) from None
    except RedisError as error:
        log.error("The infer queue cannot be reached: %s", error)
        raise HmiError(
            ErrorCode.WORKER_UNAVAILABLE,
            "The infer queue cannot be reached.",
            retry_after=RETRY_AFTER_NO_WORKER_S,
        ) from error


def _count(tenant: Tenant, model: ModelRef, inputs: int, *, tokens: int, failed: bool) -> None:
    """What was computed is answered, also when the database has gone meanwhile and nothing can be counted."""
    try:
        usage_record(tenant=tenant, hplm_name=model.hplm, inputs=inputs, tokens=tokens, failed=failed)
    except (OperationalError, InterfaceError) as error:
        log.error("A request of %s for %s was not counted: %s", model.tenant, model.hplm, error)


def _release_database() -> None:
    """Waiting for an answer takes seconds; the connection goes back to the pool first."""
    if not connection.in_atomic_block:
        connection.close()
