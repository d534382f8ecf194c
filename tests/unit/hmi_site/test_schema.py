"""The description of the API that is generated from the code."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management import call_command

from inference.api.answer_headers import SAID


def test_it_is_valid_and_generated_without_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    call_command("spectacular", format="openapi-json", validate=True, fail_on_warn=True, file=str(file))
    document = json.loads(file.read_text())
    paths = document["paths"]
    assert {"/api/v1/infer", "/api/v1/models", "/api/v1/tenants/{tenant}/webhooks"} <= set(paths)
    for asking in ("/api/v1/infer", "/v1/embeddings", "/v2/models/{model}/infer"):
        assert set(SAID) <= set(paths[asking]["post"]["responses"]["200"]["headers"]), asking
    assert not list(_lenient(document))


def _lenient(document: dict[str, Any]) -> Iterator[str]:
    """What takes fields of our own API that it does not name."""
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                name = content["schema"].get("$ref", "").rpartition("/")[2]
                if (
                    path.startswith("/api/")
                    and name
                    and schemas[name].get("additionalProperties") is not False
                ):
                    yield f"{method} {path}: {name}"
