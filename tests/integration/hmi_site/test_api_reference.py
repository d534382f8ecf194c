"""The reference of the API: each operation says what it does, and shows an example."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

pytestmark = pytest.mark.django_db

METHODS = {"get", "post", "put", "patch", "delete"}
Json = dict[str, Any]


@pytest.fixture
def schema(client: Client) -> Json:
    """The OpenAPI document, as it is served."""
    document: Json = client.get("/api/schema/", headers={"Accept": "application/json"}).json()
    return document


def operations(schema: Json) -> Iterator[tuple[str, str, Json]]:
    """The paths, methods and descriptions of all operations."""
    for path, item in schema["paths"].items():
        yield from ((path, method, item[method]) for method in METHODS & item.keys())


def examples(operation: Json) -> Iterator[tuple[Json, Any]]:
    """The examples of an operation, with the schema of each."""
    for parameter in operation.get("parameters", ()):
        if "example" in parameter:
            yield parameter["schema"], parameter["example"]
    answers = [answer for status, answer in operation["responses"].items() if status < "3"]
    for body in [operation.get("requestBody", {}), *answers]:
        for content in body.get("content", {}).values():
            if "example" in content:
                yield content["schema"], content["example"]
            yield from ((content["schema"], one["value"]) for one in content.get("examples", {}).values())


def test_every_operation_shows_an_example(schema: Json) -> None:
    without = [
        (method, path)
        for path, method, operation in operations(schema)
        if operation.get("parameters") or operation.get("requestBody") or "204" not in operation["responses"]
        if not list(examples(operation))
    ]
    assert without == []


def test_examples_fit_their_schemas(schema: Json) -> None:
    components = {"components": schema["components"]}
    for path, method, operation in operations(schema):
        for described, example in examples(operation):
            wrong = list(Draft202012Validator({**described, **components}).iter_errors(example))
            assert wrong == [], (method, path, example)
