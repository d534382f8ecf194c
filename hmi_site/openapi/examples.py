"""Examples in the OpenAPI schema: of required parameters, and of JSON bodies that have none of their own.

They are made from the schemas, so that they change with them.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

JSON_TYPE: Final = "application/json"
UUID: Final = "6f1c2a4e-8d0b-4c57-9a3e-2b7f5d9c1e80"
HEX: Final = UUID.replace("-", "")
SHA256: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
MOMENT: Final = "2026-11-27T14:32:00Z"
BY_FORMAT: Final = {
    "date-time": MOMENT,
    "date": "2026-11-27",
    "uuid": UUID,
    "uri": "https://hmi.example.com/hooks",
    "email": "dana@example.com",
}
BY_NAME: Final[dict[str, tuple[Any, ...]]] = {
    "actor": ("dana",),
    "address": ("192.0.2.17",),
    "alias": ("production",),
    "api": ("infer",),
    "answer": ("two tablets a day",),
    "attempt": (1,),
    "batch_key": (f"batch_{HEX}",),
    "bytes": (24_576,),
    "cascade": (SHA256,),
    "bigram": (4,),
    "bigrams": (4_100,),
    "code": ("rate_limited",),
    "columns": ({"text": "message", "label": "category"},),
    "completion_window": ("24h",),
    "confidence": (0.94,),
    "content": ("Where is my parcel?",),
    "context": ("Take two tablets a day.",),
    "corpus_id": (31,),
    "created": (1_795_790_000,),
    "created_at": (MOMENT, 1_795_790_000),
    "created_by": ("dana",),
    "corpus": (31,),
    "dataset": (28,),
    "dataset_id": (28,),
    "datatype": ("BYTES",),
    "day": ("2026-11-27",),
    "deleted": (True,),
    "description": ("Sorts tickets by subject.",),
    "digest": (SHA256,),
    "disabled_reason": ("",),
    "domain_id": (12,),
    "email": ("dana@example.com",),
    "embedding": ([0.12, -0.07, 0.31],),
    "endpoint": ("/v1/embeddings",),
    "enabled": (True,),
    "error": (None,),
    "error_code": ("", None),
    "error_message": ("",),
    "event_id": (f"msg_{HEX}",),
    "expires_at": (1_795_876_400,),
    "extensions": (["sequence"],),
    "file_id": (f"file-{HEX}",),
    "filename": ("tickets.jsonl",),
    "files_ready": (True,),
    "fine_tuned_model": ("acme/ticket-triage:1",),
    "fine_tuned_model_checkpoint": ("acme/ticket-triage:1",),
    "fine_tuning_id": (f"ftjob-{HEX}",),
    "fine_tuning_job_id": (f"ftjob-{HEX}",),
    "fine_tuning_key": (HEX,),
    "finish_reason": ("stop",),
    "first_id": (UUID,),
    "fragments": (8_800,),
    "high": (240.0,),
    "id": (17, UUID),
    "inputs": (["Where is my parcel?"], 1),
    "input_file_id": (f"file-{HEX}",),
    "invitation_id": (9,),
    "invited_by": ("dana",),
    "key": ("hmi_K8i59fop.3vq0",),
    "kind": ("model", "fine_tune", "running"),
    "kinds": (["job.succeeded", "job.failed"],),
    "label": ("delivery",),
    "labels": (["delivery", "refund"],),
    "last_id": (UUID,),
    "latency_ms": (12.5,),
    "level": ("table",),
    "license": ("apache-2.0",),
    "likely": (150.0,),
    "line": (4,),
    "link": ("https://hmi.example.com/invitations/3vq0/",),
    "long_share": (0.02,),
    "longest": (86,),
    "low": (110.0,),
    "max_attempts": (3,),
    "max_tokens": (64,),
    "member_id": (3,),
    "message": ("The rate limit is reached.",),
    "model": ("acme/ticket-triage",),
    "model_name": ("acme/ticket-triage",),
    "model_version": ("1",),
    "name": ("ticket-triage",),
    "next": ("https://hmi.example.com/api/v1/models?cursor=cD0y",),
    "number": (1,),
    "organization_id": ("acme",),
    "owned_by": ("acme",),
    "param": ("name",),
    "parent": (148,),
    "past_jobs": (7,),
    "percent": (20,),
    "platform": ("hmi",),
    "prefix": ("K8i59fop",),
    "previous": ("https://hmi.example.com/api/v1/models?cursor=cj0x",),
    "progress": (0.4,),
    "purpose": ("fine-tune",),
    "question": ("How many tablets a day?",),
    "queue_position": (2,),
    "reason": ("Fewer mistakes on refunds.",),
    "refusal": (None,),
    "request_id": ("02c6f2e0",),
    "requests_per_minute": (600,),
    "result_files": ([],),
    "role": ("developer", "assistant"),
    "root": ("minilm",),
    "ready": (True,),
    "row": (4,),
    "rows": (240,),
    "rows_read": (240,),
    "scopes": (["infer"],),
    "scores": ({"delivery": 0.94, "refund": 0.06},),
    "secret": ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",),
    "sha256": (SHA256,),
    "size_bytes": (24_576,),
    "slug": ("acme",),
    "source": ("sentence-transformers/all-MiniLM-L6-v2",),
    "stage": ("train",),
    "state": ("ready", "running"),
    "status": (200, "completed"),
    "storage_bytes": (730_000,),
    "subject": ("ticket-triage",),
    "tenant": ("acme",),
    "text": ("Where is my parcel?",),
    "texts": (["Where is my parcel?"],),
    "system_fingerprint": ("1",),
    "tail_sha256": (SHA256,),
    "task": ("classification",),
    "tokens": (18,),
    "tokens_per_minute": (60_000,),
    "tokens_per_word": (1.3,),
    "total_lines": (240,),
    "training_file": (f"file-{HEX}",),
    "trigram": (12,),
    "trigrams": (3_900,),
    "unigram": (2,),
    "unigrams": (800,),
    "unknown_share": (0.004,),
    "url": ("https://hooks.example.com/hmi",),
    "username": ("dana",),
    "validation_file": (None,),
    "verb": ("model_create",),
    "version": (1, "1"),
    "version_id": (148,),
    "version_name": ("acme/ticket-triage:1",),
    "versions": (["1"],),
    "wait_s": (120.0,),
    "waiting": ([],),
    "warnings": ([],),
    "words": (21_014,),
}
"""Values by the name of a field: the first that its type allows."""
LITERAL: Final = re.compile(r"`([^`]+)`\.")
"""The description of a field that has always the same value."""
PYTHON_TYPES: Final = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
MAX_DEPTH: Final = 6


def add_examples(result: Json, **_: Any) -> Json:
    """Add the examples that the views do not give (a hook of drf-spectacular)."""
    schemas = result.get("components", {}).get("schemas", {})
    for operation in _operations(result):
        for parameter in operation.get("parameters", ()):
            if parameter.get("required"):
                parameter.setdefault("example", example_of(parameter["schema"], schemas, parameter["name"]))
        _add_to_body(operation.get("requestBody", {}), schemas, required_only=True)
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                _add_to_body(response, schemas)
    return result


def example_of(
    schema: Json, schemas: Json, name: str = "", *, required_only: bool = False, depth: int = 0
) -> Any:
    """Return a value of an OpenAPI schema.

    schemas: the components it refers to. name: of the field that has it. required_only: objects have their
    required fields alone, if they have any.
    """
    schema = _resolved(schema, schemas, nothing=None in BY_NAME.get(name, ()))
    types = schema.get("type", "object" if "properties" in schema else None)
    types = types if isinstance(types, list) else [types]
    for value in BY_NAME.get(name, ()):
        if value in schema.get("enum", [value]) and any(_is_of(value, kind, schema) for kind in types):
            return value
    for value in schema.get("enum", ()):
        if value:
            return value
    if "null" in types:
        return None
    if "default" in schema:
        return schema["default"]
    if literal := LITERAL.fullmatch(schema.get("description", "")):
        return literal[1]
    match types[0]:
        case "object":
            fields = schema.get("properties", {})
            required = set(schema.get("required", ())) if required_only else set()
            return {
                field: example_of(part, schemas, field, required_only=required_only, depth=depth + 1)
                for field, part in fields.items()
                if depth < MAX_DEPTH and (not required or field in required)
            }
        case "array":
            items = schema.get("items", {})
            return [example_of(items, schemas, name, required_only=required_only, depth=depth + 1)]
        case "string":
            return BY_FORMAT.get(schema.get("format", ""), name.replace("_", " "))
        case "integer" | "number":
            return _within(1 if types[0] == "integer" else 0.5, schema)
        case "boolean":
            return False
    return None


def _operations(result: Json) -> Iterator[Json]:
    for item in result["paths"].values():
        yield from (operation for operation in item.values() if "responses" in operation)


def _add_to_body(body: Json, schemas: Json, *, required_only: bool = False) -> None:
    content = body.get("content", {}).get(JSON_TYPE)
    if content and not content.keys() & {"example", "examples"}:
        content["example"] = example_of(content["schema"], schemas, required_only=required_only)


def _resolved(schema: Json, schemas: Json, *, nothing: bool = False) -> Json:
    """Follow references, and take the first alternative that is not null; with `nothing` the one that is."""
    while True:
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rpartition("/")[2]]
        elif alternatives := schema.get("anyOf") or schema.get("oneOf"):
            nulls = [one for one in alternatives if _is_null(one, schemas)]
            others = [one for one in alternatives if one not in nulls]
            schema = (nulls + others if nothing else others + nulls)[0]
        elif "allOf" in schema:
            schema = schema["allOf"][0]
        else:
            return schema


def _is_null(schema: Json, schemas: Json) -> bool:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return schema.get("type") == "null" or schema.get("enum") == [None]


def _is_of(value: Any, kind: str | None, schema: Json) -> bool:
    if isinstance(value, bool):
        return kind in (None, "boolean")
    if isinstance(value, list) and "$ref" in schema.get("items", {}):
        return False
    return kind is None or isinstance(value, PYTHON_TYPES.get(kind, ()))


def _within(value: float, schema: Json) -> float:
    bounds: tuple[float, float] = schema.get("minimum", value), schema.get("maximum", value)
    return min(max(value, bounds[0]), bounds[1])
