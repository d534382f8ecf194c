"""From an inference worker's reply to what a client reads."""

import logging
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from inference.api.codecs import outputs_of
from inference.api.prepared_request import PreparedRequest
from inference.queueing.messages import InferReply, ModelRef, PlotCounts
from inference.text.codec import TextCodec
from inference.text.encodings import EncodedInput
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)

_KNOWN_CODES = frozenset(code.value for code in ErrorCode)
NOT_READY_RETRY_S = 2


def answer_of(prepared: PreparedRequest, reply: InferReply) -> dict[str, Any]:
    """The JSON value of a good answer; it names the exact version that gave it. Raises HmiError where the
    numbers make no prediction."""
    model = reply.model
    return {
        "id": prepared.request_id,
        "model": {"name": f"{model.tenant}/{model.hplm}", "version": model.version, "digest": model.digest},
        "results": results_of(prepared.codec, prepared.encoded, reply),
        "usage": {
            "inputs": len(prepared.encoded),
            "tokens": prepared.tokens,
            "truncated": sum(each.truncated for each in prepared.encoded),
        },
        "plot": {**asdict(reply.plot), "hit_ratio": hit_ratio(reply.plot)},
        "batch": asdict(reply.batch),
        "timings_ms": asdict(reply.timings_ms),
    }


def results_of(codec: TextCodec, encoded: Sequence[EncodedInput], reply: InferReply) -> list[dict[str, Any]]:
    """The result of each input. Raises HmiError(inference_failed) where the numbers make no prediction."""
    try:
        return codec.results(encoded, outputs_of(reply.outputs))
    except Exception as error:
        log.exception("The reply to %s cannot be read", reply.id)
        message = "The model's numbers make no prediction."
        raise HmiError(ErrorCode.INFERENCE_FAILED, message) from error


def hit_ratio(counts: PlotCounts) -> float | None:
    """The share of the fragments that the tables had whole; None where there were none to be looked up."""
    fragments = counts.trigram + counts.bigram + counts.unigram + counts.computed
    return round(counts.trigram / fragments, 4) if fragments else None


def failure_of(reply: InferReply, *, asked: ModelRef, sequences: int) -> HmiError | None:
    """Why the reply is no answer to so many sequences for the model `asked`; None when it is one."""
    if not reply.ok:
        return _error_of(reply, asked)
    if reply.model != asked or len(reply.outputs) != sequences:
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
