"""From an inference worker's reply to what a client reads."""

from dataclasses import asdict
from typing import Any

from inference.queueing.messages import InferReply
from tenants.errors import ErrorCode, HmiError

_KNOWN_CODES = frozenset(code.value for code in ErrorCode)
_RETRY_AFTER_S = {ErrorCode.MODEL_NOT_READY: 2, ErrorCode.WORKER_UNAVAILABLE: 5}


def answer_of(reply: InferReply) -> dict[str, Any]:
    """The JSON value of a good answer; it names the exact version that gave it."""
    model = reply.model
    return {
        "id": reply.id,
        "model": {"name": f"{model.tenant}/{model.hplm}", "version": model.version, "digest": model.digest},
        "results": list(reply.results),
        "usage": asdict(reply.usage),
        "plot": asdict(reply.plot),
        "batch": asdict(reply.batch),
        "timings_ms": asdict(reply.timings_ms),
    }


def error_of(reply: InferReply) -> HmiError:
    """The worker's error as the product's own."""
    if reply.error is None or reply.error.code not in _KNOWN_CODES:
        return HmiError(ErrorCode.INFERENCE_FAILED, "The model could not answer.")
    code = ErrorCode(reply.error.code)
    return HmiError(code, reply.error.message, retry_after=_RETRY_AFTER_S.get(code))
