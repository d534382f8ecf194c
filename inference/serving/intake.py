"""From a delivered request to rows: refuse what is late or unknown, turn texts into token ids."""

import logging
from dataclasses import replace

from inference.engine.rows import ModelIdentity
from inference.hplm.errors import HplmError
from inference.hplm.miss_policy import MissPolicy
from inference.number_format import format_seconds
from inference.queueing.consumer import Entry
from inference.queueing.log_fields import whose
from inference.queueing.messages import InferReply
from inference.queueing.transport import CANCELLED
from inference.serving.catalogue import Catalogue, NotServedError
from inference.serving.reading import PLAIN, read
from inference.serving.ticket import Ticket

log = logging.getLogger(__name__)


def admit(entry: Entry, catalogue: Catalogue, now: float) -> Ticket | InferReply | None:
    """A ticket for the request, or the reply that refuses it. None while what it names may come with the
    revision that is being prepared: it is to be asked again."""
    request = entry.request
    if now >= request.deadline:
        return expiry(entry)
    try:
        return _ticket(entry, catalogue)
    except (NotServedError, HplmError) as error:
        if isinstance(error, NotServedError) and catalogue.is_behind:
            return None
        return InferReply.failure(request.id, request.model, error.code, error.message)
    except Exception:  # a text that breaks the tokenizer must not break the worker
        log.exception("request %s cannot be taken in", request.id, extra=whose(request))
        message = "the inputs cannot be tokenised"
        return InferReply.failure(request.id, request.model, "inference_failed", message)


def expiry(entry: Entry) -> InferReply:
    """The reply to a request that came too late to be computed in time."""
    request = entry.request
    allowed = request.deadline - request.enqueued_at
    message = f"the request was not served within {format_seconds(allowed)}"
    return InferReply.failure(request.id, request.model, "deadline_exceeded", message)


def cancellation(entry: Entry) -> InferReply:
    """The reply to a request that its caller has cancelled."""
    request = entry.request
    return InferReply.failure(request.id, request.model, CANCELLED, "the request was cancelled")


def _ticket(entry: Entry, catalogue: Catalogue) -> Ticket:
    request = entry.request
    model = ModelIdentity(request.tenant, request.hplm, request.version, request.digest)
    route = catalogue.route(model)
    misses = catalogue.misses
    if request.miss_policy is not None:
        misses = replace(misses, policy=MissPolicy(request.miss_policy))
    tokenizer = route.executor.root.tokenizer
    task = PLAIN if request.embed else route.served.task
    readings = read(request.inputs, tokenizer, task=task)
    return Ticket(entry, model, route, readings, misses)
