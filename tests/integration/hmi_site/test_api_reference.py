"""The reference of the API: each operation says what it does, and shows an example."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

pytestmark = pytest.mark.django_db

METHODS = {"get", "post", "put", "patch", "delete"}
NO_VERBS = {"A", "All", "An", "Each", "Every", "One", "The", "Whether"}
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


def test_every_operation_has_a_summary_of_its_own_that_begins_with_a_verb(schema: Json) -> None:
    found = defaultdict(list)
    for path, _, operation in operations(schema):
        summary = operation["summary"]
        assert summary.split()[0] not in NO_VERBS, (path, summary)
        assert summary[0].isupper(), (path, summary)
        assert not summary.endswith("."), (path, summary)
        assert len(summary) <= 100, (path, summary)
        found[path].append(summary)
    assert [path for path, all_of in found.items() if len(set(all_of)) < len(all_of)] == []


def test_every_operation_shows_an_example(schema: Json) -> None:
    without = [
        (method, path)
        for path, method, operation in operations(schema)
        if operation.get("parameters") or operation.get("requestBody") or "204" not in operation["responses"]
        if not list(examples(operation))
    ]
    assert without == []


def test_every_body_in_json_has_an_example(schema: Json) -> None:
    for path, method, operation in operations(schema):
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/json")
            if content and status < "3":
                assert content.keys() & {"example", "examples"}, (method, path, status)


def test_examples_fit_their_schemas(schema: Json) -> None:
    components = {"components": schema["components"]}
    for path, method, operation in operations(schema):
        for described, example in examples(operation):
            wrong = list(Draft202012Validator({**described, **components}).iter_errors(example))
            assert wrong == [], (method, path, example)
