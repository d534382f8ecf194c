"""Every error of the API has one shape, also where no view was reached, or one broke."""

import pytest
from django.test import Client
from pytest_django import Settings

from tests.integration.world import World
from versiontree.tree.api import hplms

NEEDED = {"type", "code", "message", "param"}
LISTED = "/api/v1/models"


def break_it(*_: object) -> None:
    raise RuntimeError("broken for a test")


def test_errors_have_one_shape_whatever_went_wrong(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HMI_MAX_BODY_BYTES = 100
    monkeypatch.setattr(hplms, "hplms_of", break_it)
    client, (_, key) = Client(raise_request_exception=False), world.key()
    known = {"Authorization": f"Bearer {key}"}
    asked = [
        (401, "unauthenticated", client.get(LISTED)),
        (404, "not_found", client.get("/api/v1/nowhere", headers=known)),
        (404, "not_found", client.get(f"{LISTED}/absent", headers=known)),
        (405, "method_not_allowed", client.put(LISTED, headers=known)),
        (413, "body_too_large", client.post(LISTED, "x" * 101, "application/json", headers=known)),
        (422, "invalid_json", client.post(LISTED, "{", "application/json", headers=known)),
        (422, "missing_field", client.post(LISTED, "{}", "application/json", headers=known)),
        (500, "internal", client.get(LISTED, headers=known)),
    ]
    for status, code, answer in asked:
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/json"), answer.content
        assert answer.json().keys() == {"error"}
        error = answer.json()["error"]
        assert error.keys() - {"details"} == NEEDED
        assert error["code"] == code
        assert answer["X-Request-Id"]
    assert asked[3][2]["Allow"] == "GET, POST, HEAD, OPTIONS"
