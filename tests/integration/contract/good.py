"""The plainest request of an operation that should succeed: what it requires, named as it is, and no more."""

from collections.abc import Mapping
from typing import Any

from schemathesis import Case
from schemathesis.core import NOT_SET
from schemathesis.schemas import APIOperation

from tests.integration.contract.known import Known

REF = "$ref"


def good_case(operation: APIOperation[Any, Any, Any, Any], known: Known) -> Case[Any]:
    """Of several kinds of body, the first."""
    own = known.own(operation.label)
    fields = {**known.fields, **own}
    body, media_type = _body(operation, fields, own)
    return operation.Case(
        path_parameters={
            part.name: own.get(part.name, known.place(operation.path, part.name))
            for part in operation.path_parameters
        },
        query={part.name: fields[part.name] for part in operation.query if part.is_required},
        headers={part.name: str(fields[part.name]) for part in operation.headers if part.is_required},
        body=body,
        media_type=media_type,
    )


def _body(
    operation: APIOperation[Any, Any, Any, Any], fields: Mapping[str, object], own: Mapping[str, object]
) -> tuple[Any, str | None]:
    """The fields that are required, and those that this operation's request names besides."""
    content = operation.definition.raw.get("requestBody", {}).get("content", {})
    if not content:
        return NOT_SET, None
    media_type, described = next(iter(content.items()))
    schema = described.get("schema", {})
    if REF in schema:
        schema = operation.schema.raw_schema["components"]["schemas"][schema[REF].rsplit("/", 1)[1]]
    if schema.get("format") == "binary":
        return fields["file"], media_type
    wanted = set(schema.get("required", ())) | (set(own) & set(schema.get("properties", ())))
    return {name: fields[name] for name in wanted if name in fields}, media_type
