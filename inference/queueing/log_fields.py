"""What the log of either side says of a request: facts and figures, never a text."""

from dataclasses import asdict
from typing import Any

from inference.queueing.messages import InferReply, InferRequest, ModelRef


def whose(request: InferRequest) -> dict[str, Any]:
    """What every line about a request says."""
    return {"request_id": request.call, "tenant": request.tenant}


def request_fields(model: ModelRef, inputs: int) -> dict[str, Any]:
    """The exact version that so many inputs are for."""
    return {"model": f"{model.tenant}/{model.hplm}:{model.version}", "inputs": inputs}


def reply_fields(reply: InferReply) -> dict[str, Any]:
    """What a result took; nothing of a reply without one."""
    if not reply.ok:
        return {}
    timings = {f"{stage}_ms": ms for stage, ms in asdict(reply.timings_ms).items()}
    return {"tokens": reply.usage.tokens, **timings}
