"""Fields of log lines about a request, on both sides of the queue: facts and figures, never a text."""

from typing import Any

from inference.queueing.messages import InferReply, InferRequest, ModelRef


def identity_fields(request: InferRequest) -> dict[str, Any]:
    """The id and the tenant of a request, for every line about it."""
    return {"request_id": request.call, "tenant": request.tenant}


def request_fields(model: ModelRef, *, inputs: int, tokens: int) -> dict[str, Any]:
    """The exact version that so many inputs of so many tokens are for."""
    return {"model": f"{model.tenant}/{model.hplm}:{model.version}", "inputs": inputs, "tokens": tokens}


def reply_fields(reply: InferReply) -> dict[str, Any]:
    """What a result took; nothing of a reply without one."""
    if not reply.ok:
        return {}
    took = reply.timings_ms
    return {
        "queue_ms": took.queue,
        "retrieval_ms": took.retrieval,
        "adapter_load_ms": took.adapter_load,
        "compute_ms": took.compute,
        "total_ms": took.total,
    }
