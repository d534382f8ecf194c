"""The OpenAPI schema that is generated from the code."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import call_command
from openapi_spec_validator import OpenAPIV31SpecValidator

from hmi_site.openapi.schema import METHODS
from inference.api.schema import DIGEST, HEADER_DESCRIPTIONS, MODEL
from inference.api.validation import InferCall


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A warning is an error."""
    file: Path = tmp_path_factory.mktemp("openapi") / "schema.json"
    call_command("spectacular", format="openapi-json", fail_on_warn=True, file=str(file))
    return dict(json.loads(file.read_text()))


def test_schema_is_valid_and_has_the_operations_of_each_api(schema: dict[str, Any]) -> None:
    paths = schema["paths"]
    assert schema["openapi"] == "3.1.0"
    assert {"/api/v1/infer", "/api/v1/models", "/api/v1/tenants/{tenant}/webhooks"} <= set(paths)
    for path in ("/api/v1/infer", "/v1/embeddings", "/v2/models/{model}/infer"):
        assert set(HEADER_DESCRIPTIONS) <= set(paths[path]["post"]["responses"]["200"]["headers"]), path
    for path in ("/v1/chat/completions", "/v1/completions"):
        answer = paths[path]["post"]["responses"]["200"]
        assert answer["content"].keys() == {"application/json", "text/event-stream"}
        assert {MODEL, DIGEST} <= set(answer["headers"])


def test_the_document_is_valid_openapi_with_its_defaults_and_examples(schema: dict[str, Any]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(schema).iter_errors()] == []


def test_each_operation_describes_its_errors(schema: dict[str, Any]) -> None:
    """What an unready version, an ended invitation, an unknown host and a broken server are answered with."""
    paths = schema["paths"]
    assert "409" in paths["/api/v1/versions/{version_id}/export"]["get"]["responses"]
    assert "409" in paths["/api/v1/corpora/{corpus_id}/fit"]["get"]["responses"]
    assert "410" in paths["/api/v1/invitations/{invitation_id}/resend"]["post"]["responses"]
    operations = [methods[method] for methods in paths.values() for method in METHODS if method in methods]
    assert len(operations) > 200
    assert not [one["operationId"] for one in operations if not {"400", "500"} <= one["responses"].keys()]


def test_all_errors_have_the_same_shape(schema: dict[str, Any]) -> None:
    error = schema["components"]["schemas"]["ErrorDetail"]
    assert {"type", "code", "message", "param"} == set(error["required"])
    for status, response in schema["paths"]["/api/v1/models"]["post"]["responses"].items():
        assert status == "201" or response["$ref"] == f"#/components/responses/Error{status}"


def test_an_infer_request_is_described_as_it_is_validated(schema: dict[str, Any]) -> None:
    described = schema["components"]["schemas"]["InferRequest"]
    (validated,) = msgspec.json.schema(InferCall)["$defs"].values()
    assert list(described["properties"]) == list(validated["properties"])
    assert set(described["required"]) == set(validated["required"])
    for name, field in described["properties"].items():
        own = validated["properties"][name]
        assert _types_and_values(field, schema) == _types_and_values(own, schema), name
        assert field.get("default") == own.get("default"), name


def _types_and_values(field: dict[str, Any], schema: dict[str, Any]) -> tuple[set[str], list[str]]:
    """The types of a field but null, which stands for its default, and the values it may have."""
    types: set[str] = set()
    values: list[str] = []
    for kind in field.get("anyOf") or field.get("allOf") or [field]:
        if "$ref" in kind:
            kind = schema["components"]["schemas"][kind["$ref"].rpartition("/")[2]]
        types.add(kind.get("type", "string"))  # msgspec leaves that of texts out where it names all of them
        values += kind.get("enum", [])
    return types - ({"null", "integer"} if "number" in types else {"null"}), sorted(values)


def test_request_bodies_refuse_unknown_fields(schema: dict[str, Any]) -> None:
    assert not list(_lenient_bodies(schema))


def _lenient_bodies(schema: dict[str, Any]) -> Iterator[str]:
    """Request bodies of our own API that accept fields they do not name."""
    components = schema["components"]["schemas"]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                name = content["schema"].get("$ref", "").rpartition("/")[2]
                if (
                    path.startswith("/api/")
                    and name
                    and components[name].get("additionalProperties") is not False
                ):
                    yield f"{method} {path}: {name}"
