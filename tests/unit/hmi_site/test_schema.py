"""The description of the API that is generated from the code."""

from pathlib import Path

import yaml
from django.core.management import call_command


def test_it_is_valid_and_generated_without_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "schema.yml"
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(file))
    paths = yaml.safe_load(file.read_text())["paths"]
    assert {"/api/v1/infer", "/api/v1/hplms", "/api/v1/tenants/{tenant}/webhooks"} <= set(paths)
