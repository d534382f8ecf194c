"""The OpenAPI schema that is generated from the code."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from inference.api.answer_headers import SAID


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Generated with validation; a warning is an error."""
    file: Path = tmp_path_factory.mktemp("openapi") / "schema.json"
    call_command("spectacular", format="openapi-json", validate=True, fail_on_warn=True, file=str(file))
    return dict(json.loads(file.read_text()))


def test_schema_is_valid_and_has_the_operations_of_each_api(schema: dict[str, Any]) -> None:
    paths = schema["paths"]
    assert schema["openapi"] == "3.1.0"
    assert {"/api/v1/infer", "/api/v1/models", "/api/v1/tenants/{tenant}/webhooks"} <= set(paths)
    for path in ("/api/v1/infer", "/v1/embeddings", "/v2/models/{model}/infer"):
        assert set(SAID) <= set(paths[path]["post"]["responses"]["200"]["headers"]), path


def test_all_errors_have_the_same_shape(schema: dict[str, Any]) -> None:
    error = schema["components"]["schemas"]["ErrorDetail"]
    assert {"type", "code", "message", "param"} == set(error["required"])
    for status, response in schema["paths"]["/api/v1/models"]["post"]["responses"].items():
        assert status == "201" or response["$ref"] == f"#/components/responses/Error{status}"


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
