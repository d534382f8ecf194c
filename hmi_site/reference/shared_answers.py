"""What any request of the API may be answered besides what its view says: the errors that all have in
common, and the headers that all answers bear. Said here once; the description of each operation points here.
"""

from collections.abc import Iterator
from typing import Any

from inference.api.errors import API_PREFIX
from tenants.base.api.conditional import KNOWN
from tenants.base.errors import ErrorCode, HmiError

Json = dict[str, Any]

METHODS = ("get", "post", "put", "patch", "delete")
RETRY_AFTER = "Retry-After"
ERROR = {"$ref": "#/components/schemas/Error"}

ALWAYS: dict[int, tuple[ErrorCode, str]] = {
    401: (ErrorCode.UNAUTHENTICATED, "Nobody known asks: send an API key, or sign in."),
    403: (ErrorCode.FORBIDDEN, "Whoever asks may not do this."),
    404: (ErrorCode.NOT_FOUND, "It is not there, or belongs to somebody else."),
    406: (ErrorCode.NOT_ACCEPTABLE, "There is no answer of a type that `Accept` names."),
    422: (ErrorCode.INVALID_FIELD, "The request is not valid; `param` says where."),
    429: (ErrorCode.RATE_LIMITED, "Too often, or more than the quota allows."),
    500: (ErrorCode.INTERNAL, "A fault of the program; the operator's log has the details."),
    503: (ErrorCode.DATABASE_UNAVAILABLE, "Something that is needed is away; ask again in a moment."),
}
OF_CHANGES = {409: (ErrorCode.CONFLICT, "It cannot be done as things stand now.")}
OF_STATES = {412: (ErrorCode.PRECONDITION_FAILED, "It is not any more what `If-Match` names.")}
OF_BODIES = {
    408: (ErrorCode.BODY_TOO_SLOW, "The body did not come, or came too slowly."),
    413: (ErrorCode.BODY_TOO_LARGE, "The body is too large."),
    415: (ErrorCode.UNSUPPORTED_TYPE, "The body is of a type that is not taken here, or compressed."),
}
OF_UPLOADS = {
    412: (ErrorCode.UNSUPPORTED_VERSION, "Another version of the tus protocol, or of the upload."),
    460: (ErrorCode.CHECKSUM_MISMATCH, "What arrived is not what was promised."),
}
UPLOADS = "/uploads"
CONDITIONAL = {"put", "patch", "delete"}

HEADERS: dict[str, str] = {
    "x-request-id": "The name of the request: the one it was sent with, or one made up. The log has it, too.",
    **{
        f"x-ratelimit-{what}-{of}": f"{said} {of}."
        for of in ("requests", "tokens")
        for what, said in (
            ("limit", "What is allowed a minute, in"),
            ("remaining", "What is left now, in"),
            ("reset", "When all of it is there again, such as `0.6s`, of"),
        )
    },
}


def shared_answers(result: Json, **_: Any) -> Json:
    """A hook of drf-spectacular: fills in what each operation below ``/api/`` shares with all others. What a
    view says about a status itself stays."""
    codes = ALWAYS | OF_CHANGES | OF_BODIES | OF_UPLOADS | OF_STATES
    parts = result.setdefault("components", {})
    parts["responses"] = {f"Error{status}": _response(*codes[status], status) for status in sorted(codes)}
    parts["headers"] = {name: _header(said) for name, said in HEADERS.items()} | {
        RETRY_AFTER: _header("Seconds to wait before asking again.", "integer")
    }
    for path, method, operation in _operations(result):
        answers = operation["responses"]
        for status in _statuses(path, method, operation):
            answers.setdefault(str(status), {"$ref": f"#/components/responses/Error{status}"})
        if any(parameter.get("name") == KNOWN for parameter in operation.get("parameters", ())):
            answers["304"] = {"description": f"It is still what `{KNOWN}` names."}
        for answer in answers.values():
            if "$ref" not in answer:
                answer["headers"] = _headers(*HEADERS) | answer.get("headers", {})
        operation["responses"] = dict(sorted(answers.items()))
    return result


def either_way(result: Json, **_: Any) -> Json:
    """A hook of drf-spectacular: alternatives are any of several, not exactly one. Null fits a nullable value
    of any type twice, and so does a row of figures that has all that a shorter one has."""
    waiting: list[Any] = [result["paths"], result.get("components", {})]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get("oneOf"), list):
                one["anyOf"] = one.pop("oneOf")
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return result


def _operations(result: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in result["paths"].items():
        if path.startswith(API_PREFIX):
            yield from ((path, method, item[method]) for method in METHODS if method in item)


def _statuses(path: str, method: str, operation: Json) -> Iterator[int]:
    yield from ALWAYS
    if method != "get":
        yield from OF_CHANGES
    if method in CONDITIONAL:
        yield from OF_STATES
    if "requestBody" in operation:
        yield from OF_BODIES
    if UPLOADS in path and method != "get":
        yield from OF_UPLOADS


def _response(code: ErrorCode, said: str, status: int) -> Json:
    waits = [RETRY_AFTER] if status in {429, 503} else []
    example = {"value": HmiError(code, said).to_json()}
    return {
        "description": said,
        "headers": _headers(*HEADERS, *waits),
        "content": {"application/json": {"schema": ERROR, "examples": {str(code): example}}},
    }


def _headers(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(said: str, kind: str = "string") -> Json:
    return {"description": said, "schema": {"type": kind}}
