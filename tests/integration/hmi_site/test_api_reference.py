"""The reference of the API: examples fit, and `openapi-python-client` makes a client of it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.peers import peer_python

pytestmark = pytest.mark.django_db

METHODS = {"get", "post", "put", "patch", "delete"}
Json = dict[str, Any]
LONGEST_S = 800
IMPORT_ALL = """
import importlib, json, pkgutil
import made.api as api
operations = [each for each in pkgutil.walk_packages(api.__path__, "made.api.") if not each.ispkg]
for each in operations:
    importlib.import_module(each.name)
print(json.dumps(len(operations)))
"""


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


@pytest.mark.slow
def test_generated_client_has_every_operation_and_is_made_without_a_warning(
    schema: Json, tmp_path: Path
) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    python = str(peer_python())
    generate = ["generate", "--path", "schema.json", "--output-path", "made", "--meta", "none"]
    made = run(tmp_path, python, "-m", "openapi_python_client", *generate, "--fail-on-warning")
    assert "WARNING" not in made
    assert json.loads(run(tmp_path, python, "-c", IMPORT_ALL)) == len(list(operations(schema)))


def run(folder: Path, *command: str) -> str:
    """What the command says. It finds what was installed beside its Python, such as a formatter."""
    env = os.environ | {"PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
