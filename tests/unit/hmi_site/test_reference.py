"""The description of the API, and the API as releases had it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from hmi_site.reference.breaking import breaking_changes
from hmi_site.reference.releases import document_now, document_of_release, documents_kept


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return document_now()


def test_the_description_is_of_the_newest_kind_and_has_one_shape_for_errors(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    error = document["components"]["schemas"]["ErrorDetail"]
    assert {"type", "code", "message", "param"} == set(error["required"])
    for status, answer in document["paths"]["/api/v1/models"]["post"]["responses"].items():
        assert status == "201" or answer["$ref"] == f"#/components/responses/Error{status}"


def test_clients_of_every_release_can_go_on(document: dict[str, Any]) -> None:
    kept = list(documents_kept())
    assert kept
    for path in kept:
        broken = breaking_changes(json.loads(path.read_text(encoding="utf-8")), document)
        assert not broken, f"Clients of {path.name} could not go on:\n" + "\n".join(broken)


def test_a_release_that_breaks_them_is_kept_only_if_that_is_meant(
    document: dict[str, Any], settings: Settings, tmp_path: Path
) -> None:
    project = (Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8")
    settings.BASE_DIR = tmp_path
    (tmp_path / "docs" / "api").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    older = tmp_path / "docs" / "api" / "openapi-0.0.1.json"
    older.write_text(json.dumps(document | {"paths": {"/gone": {"get": {"responses": {}}}}}))
    with pytest.raises(CommandError, match="GET /gone is gone"):
        call_command("keep_api")
    assert list(documents_kept()) == [older]
    call_command("keep_api", break_clients=True)
    assert list(documents_kept()) == [document_of_release()]
    assert json.loads(document_of_release().read_text(encoding="utf-8")) == document
