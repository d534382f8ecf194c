"""Formats the infer API's response as one of the Open Inference Protocol."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.http import HttpResponse

from inference.api.schema import answer_headers
from inference.open_inference.parsers import JSON_LENGTH
from inference.open_inference.requests import BINARY_SIZE, OipRequest
from inference.open_inference.signatures import Signature

JSON_TYPE: Final = "application/json"
BINARY_TYPE: Final = "application/octet-stream"


def oip_response(answer: Mapping[str, Any], request: OipRequest, signature: Signature) -> HttpResponse:
    """The requested outputs. Binary ones follow the JSON, in the same order."""
    results = answer["results"]
    outputs: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for output in signature.outputs:
        if request.outputs and output.name not in request.outputs:
            continue
        tensor = output.tensor(results)
        if request.outputs.get(output.name, request.binary_default):
            binary.append(tensor.to_bytes())
            outputs.append({**tensor.metadata, "parameters": {BINARY_SIZE: len(binary[-1])}})
        else:
            outputs.append({**tensor.metadata, "data": list(tensor.values)})
    model = answer["model"]
    value = {
        "model_name": model["name"],
        "model_version": str(model["version"]),
        "id": answer["id"] if request.id is None else request.id,
        "parameters": _parameters(answer, request.ignored),
        "outputs": outputs,
    }
    body, headers = json.dumps(value, separators=(",", ":")).encode(), answer_headers(answer)
    if not binary:
        return HttpResponse(body, content_type=JSON_TYPE, headers=headers)
    content = b"".join([body, *binary])
    return HttpResponse(content, content_type=BINARY_TYPE, headers=headers | {JSON_LENGTH: str(len(body))})


def _parameters(answer: Mapping[str, Any], ignored: Sequence[str]) -> dict[str, str | int | float]:
    """Digests, number format, tokens, coverage, timings, and the parameters of the request that were ignored.

    The protocol allows no nested objects here.
    """
    model = answer["model"]
    return {
        **{name: model[name] for name in ("digest", "cascade", "number_format") if name in model},
        "tokens": answer["usage"]["tokens"],
        **{f"plot_{level}": count for level, count in answer["plot"].items() if count is not None},
        **{f"{stage}_ms": spent for stage, spent in answer["timings_ms"].items()},
        **({"ignored": ", ".join(ignored)} if ignored else {}),
    }
