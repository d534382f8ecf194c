"""From an inference worker's reply to what a client reads."""

import logging
from typing import Any

from inference.queueing.messages import InferReply, ModelRef, PlotCounts, by_name
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

_KNOWN_CODES = frozenset(code.value for code in ErrorCode)
NOT_READY_RETRY_S = 2


def answer_of(reply: InferReply, request_id: str) -> dict[str, Any]:
    """The JSON value of a good answer; it names the exact version that gave it."""
    model = reply.model
    return {
        "id": request_id,
        "model": {"name": f"{model.tenant}/{model.hplm}", "version": model.version, "digest": model.digest},
        "results": list(reply.results),
        "usage": by_name(reply.usage),
        "plot": {**by_name(reply.plot), "hit_ratio": hit_ratio(reply.plot)},
        "batch": by_name(reply.batch),
        "timings_ms": by_name(reply.timings_ms),
    }


def hit_ratio(counts: PlotCounts) -> float | None:
    """The share of the fragments that the tables had whole; None where there were none to be looked up."""
    fragments = counts.trigram + counts.bigram + counts.unigram + counts.computed
    return round(counts.trigram / fragments, 4) if fragments else None


def failure_of(reply: InferReply, *, asked: ModelRef, inputs: int) -> HmiError | None:
    """Why the reply is no answer to `inputs` texts for the model `asked`; None when it is one."""
    if not reply.ok:
        return _error_of(reply, asked)
    if reply.model != asked or len(reply.results) != inputs:
        log.critical("Request %s for %s was answered by %s", reply.id, asked, reply.model)
        message = "The answer did not come from the model that was asked for."
        return HmiError(ErrorCode.INFERENCE_FAILED, message)
    return None


def _error_of(reply: InferReply, asked: ModelRef) -> HmiError:
    if reply.error is None or reply.error.code not in _KNOWN_CODES:
        return HmiError(ErrorCode.INFERENCE_FAILED, "The model could not answer.")
    code = ErrorCode(reply.error.code)
    if code is ErrorCode.NOT_FOUND:
        # It was there a moment ago, when it was resolved: the worker has yet to hear of it.
        message = f"{asked.hplm}:{asked.version} is not served yet; try again in a moment."
        return HmiError(ErrorCode.MODEL_NOT_READY, message, param="model", retry_after=NOT_READY_RETRY_S)
    return HmiError(code, reply.error.message)
