"""The description of the API that is generated from the code."""

import json
from pathlib import Path

from django.core.management import call_command

from inference.api.answer_headers import SAID


def test_it_is_valid_and_generated_without_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    call_command("spectacular", format="openapi-json", validate=True, fail_on_warn=True, file=str(file))
    paths = json.loads(file.read_text())["paths"]
    assert {"/api/v1/infer", "/api/v1/hplms", "/api/v1/tenants/{tenant}/webhooks"} <= set(paths)
    for asking in ("/api/v1/infer", "/v1/embeddings", "/v2/models/{model}/infer"):
        assert set(SAID) <= set(paths[asking]["post"]["responses"]["200"]["headers"]), asking
