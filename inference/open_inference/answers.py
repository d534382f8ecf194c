"""From the infer API's answer to one of the Open Inference Protocol."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.http import HttpResponse

from inference.api.answer_headers import answer_headers
from inference.open_inference.bodies import JSON_LENGTH
from inference.open_inference.calls import SIZE, OipCall
from inference.open_inference.signatures import Signature

JSON: Final = "application/json"


BYTES: Final = "application/octet-stream"


def oip_answer(answer: Mapping[str, Any], call: OipCall, signature: Signature) -> HttpResponse:
    """The outputs that were asked for: those wanted as bytes stand behind the JSON, in their order."""
    results = answer["results"]
    outputs: list[dict[str, Any]] = []
    behind: list[bytes] = []
    for output in signature.outputs:
        if call.wanted and output.name not in call.wanted:
            continue
        tensor = output.tensor(results)
        if call.wanted.get(output.name, call.all_as_bytes):
            behind.append(tensor.to_bytes())
            outputs.append({**tensor.about, "parameters": {SIZE: len(behind[-1])}})
        else:
            outputs.append({**tensor.about, "data": list(tensor.values)})
    model = answer["model"]
    value = {
        "model_name": model["name"],
        "model_version": str(model["version"]),
        "id": answer["id"] if call.id is None else call.id,
        "parameters": _parameters(answer),
        "outputs": outputs,
    }
    head, headers = json.dumps(value, separators=(",", ":")).encode(), answer_headers(answer)
    if not behind:
        return HttpResponse(head, content_type=JSON, headers=headers)
    whole = b"".join([head, *behind])
    return HttpResponse(whole, content_type=BYTES, headers=headers | {JSON_LENGTH: str(len(head))})


def _parameters(answer: Mapping[str, Any]) -> dict[str, str | int | float]:
    """What is known beside the outputs; the protocol has no objects here."""
    return {
        "digest": answer["model"]["digest"],
        "tokens": answer["usage"]["tokens"],
        **{f"plot_{level}": count for level, count in answer["plot"].items() if count is not None},
        **{f"{stage}_ms": spent for stage, spent in answer["timings_ms"].items()},
    }
