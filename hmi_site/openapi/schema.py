"""What the OpenAPI schema says of many operations at once: common errors and headers.

drf-spectacular generates the rest from the views.
"""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, Final, Literal, get_args, get_type_hints, is_typeddict

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter
from msgspec import Meta, Struct
from msgspec.json import schema_components

from hmi_site.http.body_limits import FORM
from inference.api.errors import API_PREFIX
from inference.api.schema import COMPONENTS
from tenants.accounts.api import idempotency
from tenants.accounts.api.idempotency import IdempotentView
from tenants.base.errors import INTERNAL_MESSAGE, ErrorCode, HmiError

Json = dict[str, Any]

METHODS: Final = ("get", "post", "put", "patch", "delete")
RETRY_AFTER: Final = "Retry-After"
JSON_TYPE: Final = "application/json"
ERROR_SCHEMA: Final = {"$ref": "#/components/schemas/Error"}

COMMON_ERRORS: Final[dict[int, tuple[ErrorCode, str]]] = {
    400: (ErrorCode.INVALID_LENGTH, "The request cannot be read: an unclear length, or an unknown host."),
    401: (ErrorCode.UNAUTHENTICATED, "Authentication is missing: send an API key, or sign in."),
    403: (ErrorCode.FORBIDDEN, "The caller does not have permission to do this."),
    404: (ErrorCode.NOT_FOUND, "The object does not exist, or belongs to another tenant."),
    406: (ErrorCode.NOT_ACCEPTABLE, "There is no response of a type that `Accept` names."),
    422: (ErrorCode.INVALID_FIELD, "The request is not valid; `param` names the field."),
    429: (ErrorCode.RATE_LIMITED, "A rate limit or a quota is reached."),
    500: (ErrorCode.INTERNAL, INTERNAL_MESSAGE),
    503: (
        ErrorCode.DATABASE_UNAVAILABLE,
        "A service that is needed is not available; try again in a moment.",
    ),
}
GONE_ERRORS: Final = {410: (ErrorCode.INVITATION_OVER, "The object is no longer available.")}
WRITE_ERRORS: Final = {409: (ErrorCode.CONFLICT, "Not possible in the present state.")}
BODY_ERRORS: Final = {
    408: (ErrorCode.BODY_TOO_SLOW, "The body did not arrive, or arrived too slowly."),
    413: (ErrorCode.BODY_TOO_LARGE, "The body is too large."),
    415: (ErrorCode.UNSUPPORTED_TYPE, "The body has a type that is not accepted here, or is compressed."),
}
UPLOAD_ERRORS: Final = {
    412: (ErrorCode.UNSUPPORTED_VERSION, "Another version of the tus protocol, or of the upload."),
    460: (ErrorCode.CHECKSUM_MISMATCH, "The checksum of the received bytes does not match."),
}
PROTOCOLS: Final = {"v1": ["openai"], "v2": ["open-inference"]}
"""Tags by the first part of the path."""
UPLOADS_PATH: Final = "/uploads"
NOT_READY_PATHS: Final = ("/export", "/fit")
"""Ends of the paths whose GET is refused while a version is not ready."""
GONE_PATH: Final = "/resend"

COMMON_HEADERS: Final[dict[str, str]] = {
    "x-request-id": "The id of the request: the caller's own, or a generated one. The log has it, too.",
    **{
        f"x-ratelimit-{name}-{unit}": f"{description} {unit}."
        for unit in ("requests", "tokens")
        for name, description in (
            ("limit", "What is allowed a minute, in"),
            ("remaining", "What is left now, in"),
            ("reset", "Time until the limit is full again, such as `0.6s`, of"),
        )
    },
}


def _parameter(name: str, description: str, response: bool | list[int | str] = False) -> OpenApiParameter:
    return OpenApiParameter(
        name, location=OpenApiParameter.HEADER, description=description, response=response
    )


IDEMPOTENCY_KEY: Final = _parameter(
    idempotency.HEADER, "A second request with the same key and body gets the same response, for a day."
)
REPLAYED: Final = _parameter(
    idempotency.REPLAYED, "`true` if this is the stored response of an earlier request.", [200, 201, 202]
)


class HmiAutoSchema(AutoSchema):
    """Describes operations by docstrings, and adds the headers of idempotent views.

    The docstring is that of the method, or of the view if the method has none: its first sentence is the
    summary.
    """

    def get_summary(self) -> str | None:
        return first_sentence(self.get_description())

    def get_tags(self) -> list[str]:
        """By resource; the protocols of others have a tag each."""
        return PROTOCOLS.get(self.path.split("/")[1]) or super().get_tags()

    def get_override_parameters(self) -> list[Any]:
        headers = []
        if (
            self.method == "POST"
            and isinstance(self.view, IdempotentView)
            and self.view.takes_idempotency_key
        ):
            headers += [IDEMPOTENCY_KEY, REPLAYED]
        return [*super().get_override_parameters(), *headers]


class TypeSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Describes a request or response whose type is a msgspec struct or a TypedDict."""

    @classmethod
    def _matches(cls, target: Any) -> bool:
        return isinstance(target, type) and (issubclass(target, Struct) or is_typeddict(target))

    def get_name(self, auto_schema: AutoSchema, direction: Literal["request", "response"]) -> str:
        """Return the name of the type. That of a request ends in ``Call``, for which "Request" is added."""
        return str(self.target.__name__).removesuffix("Call")

    def map_serializer(self, auto_schema: AutoSchema, direction: Literal["request", "response"]) -> Json:
        """Return the schema of the type, and register those of the types that it names."""
        types = {each.__name__: each for each in _types_in(self.target)}
        _, schemas = schema_components(types.values(), ref_template="#/components/schemas/{name}")
        for name, schema in schemas.items():
            del schema["title"]
            schema["description"] = cleandoc(schema.get("description", ""))
            _type_enums(schema)
            if is_typeddict(types.get(name)):  # msgspec sorts their fields
                fields = schema["properties"]
                schema["properties"] = {field: fields[field] for field in get_type_hints(types[name])}
        own: Json = schemas.pop(self.target.__name__)
        for name, schema in schemas.items():
            component = ResolvedComponent(name, ResolvedComponent.SCHEMA, schema, name)  # type: ignore[no-untyped-call]
            auto_schema.registry.register_on_missing(component)
        return own


def _types_in(hint: Any) -> Iterator[type]:
    """Yield the structs and typed dictionaries in the fields of a type, and those that constraints name."""
    if TypeSchema._matches(hint):
        yield hint
        parts: Iterator[Any] = iter(get_type_hints(hint, include_extras=True).values())
    else:
        metas = (each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Meta))
        named = (one for each in metas for one in (each.extra or {}).get(COMPONENTS, ()))
        parts = iter((*named, *get_args(hint)))
    for part in parts:
        yield from _types_in(part)


def _type_enums(schema: Any) -> None:
    """Add the type of each choice of strings, which msgspec leaves out and drf-spectacular needs."""
    if isinstance(schema, dict):
        if "enum" in schema:
            schema.setdefault("type", "string")
        for part in schema.values():
            _type_enums(part)
    elif isinstance(schema, list):
        for part in schema:
            _type_enums(part)


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring without its full stop."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".")


def add_common_responses(result: Json, **_: Any) -> Json:
    """Add the common errors and headers to each operation below ``/api/`` (a hook of drf-spectacular).

    A status that the view describes itself stays.
    """
    errors = COMMON_ERRORS | WRITE_ERRORS | GONE_ERRORS | BODY_ERRORS | UPLOAD_ERRORS
    components = result.setdefault("components", {})
    components["responses"] = {
        f"Error{status}": _error_response(*errors[status], status) for status in sorted(errors)
    }
    components["headers"] = {name: _header(text) for name, text in COMMON_HEADERS.items()} | {
        RETRY_AFTER: _header("Seconds to wait before the next attempt.", "integer")
    }
    for path, method, operation in _operations(result):
        responses = operation["responses"]
        for status in _error_statuses(path, method, operation):
            responses.setdefault(str(status), {"$ref": f"#/components/responses/Error{status}"})
        for response in responses.values():
            if "$ref" not in response:
                response["headers"] = _header_refs(*COMMON_HEADERS) | response.get("headers", {})
        operation["responses"] = dict(sorted(responses.items()))
    return result


def one_of_to_any_of(result: Json, **_: Any) -> Json:
    """Replace ``oneOf`` by ``anyOf`` (a hook of drf-spectacular).

    Some values match several alternatives: null matches each nullable type.
    """
    stack: list[Any] = [result["paths"], result.get("components", {})]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(node.get("oneOf"), list):
                node["anyOf"] = node.pop("oneOf")
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    return result


def forms_for_files_only(result: Json, **_: Any) -> Json:
    """Describe a body as a form only if it has a file, or cannot be JSON (a hook of drf-spectacular).

    Every operation reads both, but openapi-python-client writes modules that do not import where an operation
    has two kinds of bodies and no other optional parameter.
    """
    files = {
        f"#/components/schemas/{name}"
        for name, schema in result.get("components", {}).get("schemas", {}).items()
        if any(part.get("format") == "binary" for part in schema.get("properties", {}).values())
    }
    for _path, _method, operation in _operations(result):
        content = operation.get("requestBody", {}).get("content", {})
        if JSON_TYPE in content and content.get(FORM, {}).get("schema", {}).get("$ref") not in files:
            content.pop(FORM, None)
    return result


def _operations(result: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in result["paths"].items():
        if path.startswith(API_PREFIX):
            yield from ((path, method, item[method]) for method in METHODS if method in item)


def _error_statuses(path: str, method: str, operation: Json) -> Iterator[int]:
    yield from COMMON_ERRORS
    if method != "get" or path.endswith(NOT_READY_PATHS):
        yield from WRITE_ERRORS
    if path.endswith(GONE_PATH):
        yield from GONE_ERRORS
    if "requestBody" in operation:
        yield from BODY_ERRORS
    if UPLOADS_PATH in path and method != "get":
        yield from UPLOAD_ERRORS


def _error_response(code: ErrorCode, description: str, status: int) -> Json:
    headers = [*COMMON_HEADERS, *([RETRY_AFTER] if status in {429, 503} else [])]
    example = {"value": HmiError(code, description).to_json()}
    return {
        "description": description,
        "headers": _header_refs(*headers),
        "content": {JSON_TYPE: {"schema": ERROR_SCHEMA, "examples": {str(code): example}}},
    }


def _header_refs(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(description: str, kind: str = "string") -> Json:
    return {"description": description, "schema": {"type": kind}}
