"""A line of the worker's log for each request it has answered."""

import logging

from inference.queueing.log_fields import identity_fields, reply_fields, request_fields
from inference.queueing.messages import InferReply, InferRequest

log = logging.getLogger(__name__)


def log_answer(request: InferRequest, reply: InferReply) -> None:
    """A refusal at ``info``, a result at ``debug``: there may be thousands a second, and the process that
    asked logs each with the same figures."""
    level = logging.INFO if reply.error else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    fields = {
        **identity_fields(request),
        **request_fields(request.model, inputs=len(request.sequences), tokens=request.tokens),
        "code": reply.error.code if reply.error else "ok",
        **reply_fields(reply),
    }
    log.log(level, "answered", extra=fields)
