"""One infer request, from a tenant's texts to the answer; the REST view and the UI both call this."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from structlog.contextvars import bind_contextvars

from inference.api.admission import Asking, no_room
from inference.api.answers import answer_of, failure_of
from inference.api.client import gateway, reaching_the_queue
from inference.api.inputs import GivenInput, check_inputs, fit_inputs
from inference.api.rates.limits import guess_tokens, limits_of
from inference.api.rates.spending import tokens_spent
from inference.api.validation import (
    REQUEST_ID_HEADER,
    check_miss_policy,
    check_reference,
    check_timeout,
)
from inference.queueing.log_fields import reply_fields, request_fields
from inference.queueing.messages import InferInput, InferReply, ModelRef
from inference.queueing.replies import NoReply
from inference.queueing.transport import CallOutstanding, QueueFull
from tenants.errors import ErrorCode, HmiError
from tenants.models import ApiKey, Tenant
from tenants.services.quotas import quota_check_requests
from tenants.services.usage import usage_record
from versiontree.resolving import resolve_model_lately

log = logging.getLogger(__name__)


def infer(
    *,
    tenant: Tenant,
    reference: str,
    inputs: Sequence[str | Mapping[str, str] | GivenInput],
    timeout_s: float | None = None,
    request_id: str | None = None,
    miss_policy: str | None = None,
    explain: bool = False,
    embed: bool = False,
    key: ApiKey | None = None,
    on_accepted: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """What `tenant`'s model `reference` says to each of `inputs`, as the JSON value that clients get.

    An input is a text, or `{"text", "text_pair"}` or `{"question", "context"}` for a model that takes two.
    The caller has checked that whoever asks may act for the tenant, and may choose `miss_policy` if it is
    given. With `explain` each result says how each token was made; with `embed` it is the text's `embedding`,
    whatever the model's task is. `on_accepted` is called when `cancel` may
    be. Raises HmiError: bad input, `not_found`, `model_not_ready`, `quota_exceeded`, `rate_limited`, and
    `conflict`, `worker_unavailable` or `queue_full` when nothing was accepted; after that `cancelled`,
    `deadline_exceeded` and whatever the inference worker reports.
    """
    request_id = request_id or uuid.uuid4().hex
    reference, seconds = check_reference(reference), check_timeout(timeout_s)
    given, policy = check_inputs(inputs), check_miss_policy(miss_policy)
    resolved = resolve_model_lately(tenant, reference)
    texts = fit_inputs(given, task="" if embed else resolved.task, pairs=resolved.pairs and not embed)
    quota_check_requests(tenant=tenant)
    model = ModelRef(resolved.tenant_slug, resolved.hplm_name, resolved.version_number, resolved.digest)
    bind_contextvars(**request_fields(model, len(texts)))
    limits = limits_of(tenant, key).tokens
    _release_database()
    asking = Asking(model.tenant, resolved.root_digest, resolved.root, seconds, tenant.weight)
    try:
        with tokens_spent(limits, guess_tokens(map(_characters, texts))) as tokens:
            ask = partial(_ask, asking, model, texts, request_id, on_accepted)
            reply = ask(miss_policy=policy, explain=explain, embed=embed)
            tokens.spent = reply.usage.tokens
    except NoReply:
        _count(tenant, model, len(texts), key, None)
        message = f"There was no answer within {seconds:g} s."
        raise HmiError(ErrorCode.DEADLINE_EXCEEDED, message) from None
    bind_contextvars(**reply_fields(reply))
    failure = failure_of(reply, asked=model, inputs=len(texts))
    _count(tenant, model, len(texts), key, reply, failed=failure is not None)
    if failure is not None:
        raise failure
    return answer_of(reply, request_id)


def cancel(*, tenant: Tenant, request_id: str) -> bool:
    """Whether the tenant's request had no answer yet: it has one now, `cancelled`. Raises HmiError when the
    queue cannot be reached."""
    with reaching_the_queue():
        return gateway().client.queue.cancel(tenant.slug, request_id)


def _ask(
    asking: Asking,
    model: ModelRef,
    inputs: tuple[InferInput, ...],
    request_id: str,
    on_accepted: Callable[[], None] | None,
    **more: Any,
) -> InferReply:
    with reaching_the_queue():
        door = gateway()
        door.admit(asking)
        try:
            return door.client.ask(
                model,
                inputs,
                root=asking.root,
                seconds=asking.seconds,
                call=request_id,
                on_accepted=on_accepted,
                **more,
            )
        except QueueFull as full:
            raise no_room(full, asking, door.standing) from None
        except CallOutstanding:
            message = f"The request {request_id} has no answer yet; another one needs another id."
            raise HmiError(ErrorCode.CONFLICT, message, param=REQUEST_ID_HEADER) from None


def _characters(given: InferInput) -> int:
    return len(given.text) + len(given.text_pair or "")


def _count(
    tenant: Tenant,
    model: ModelRef,
    inputs: int,
    key: ApiKey | None,
    reply: InferReply | None,
    *,
    failed: bool = True,
) -> None:
    """What was computed is answered, also when the database has gone meanwhile and nothing can be counted."""
    try:
        usage_record(
            tenant=tenant,
            hplm_name=model.hplm,
            inputs=inputs,
            tokens=reply.usage.tokens if reply else 0,
            failed=failed,
            key_prefix=key.prefix if key else "",
            busy_ms=reply.timings_ms.busy if reply else 0.0,
        )
    except (OperationalError, InterfaceError) as error:
        log.error("A request of %s for %s was not counted: %s", model.tenant, model.hplm, error)


def _release_database() -> None:
    """Waiting for an answer takes seconds; the connection goes back to the pool first."""
    if not connection.in_atomic_block:
        connection.close()
