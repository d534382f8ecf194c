"""A field that is not known is refused, so that one misspelt is not missed."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from tenants.datasets.models import Corpus
from tests.e2e.world import World, world_build
from versiontree.jobs.models import Job


@pytest.fixture
def world(db: None, redis_client: Any, artifact_root: Path, upload_root: Path) -> World:
    return world_build()


@pytest.fixture
def owner(world: World) -> APIClient:
    client = APIClient()
    client.force_login(world.owner)
    return client


def refused(answer: Any) -> tuple[int, str | None, str]:
    error = answer.json()["error"]
    return answer.status_code, error["param"], error["message"]


def test_a_misspelt_setting_starts_nothing_with_defaults(world: World, owner: APIClient) -> None:
    before = Job.unscoped.count()
    asked = {"name": "new", "parent": 1, "dataset": 1, "setting": {"epochs": 1}}
    status, param, message = refused(owner.post("/api/v1/tenants/acme/models", asked, format="json"))
    assert (status, param) == (422, "setting")
    assert "'setting'" in message
    assert "Did you mean 'settings'?" in message
    assert Job.unscoped.count() == before


def test_a_field_of_a_form_as_well(world: World, owner: APIClient) -> None:
    before = Corpus.unscoped.count()
    form = {"name": "new", "files": SimpleUploadedFile("a.txt", b"one line\n"), "license": "MIT"}
    assert refused(owner.post("/api/v1/tenants/acme/corpora", form, format="multipart"))[:2] == (
        422,
        "license",
    )
    assert Corpus.unscoped.count() == before


@pytest.mark.parametrize("name", ["", "\ud800", "n" * 9999, "\n"])
def test_a_name_that_cannot_be_shown_breaks_no_answer(owner: APIClient, name: str) -> None:
    body = json.dumps({name: 1})
    answer = owner.patch("/api/v1/tenants/acme", body, content_type="application/json")
    assert answer.status_code in {400, 422}
    assert len(answer.content) < 1000


@pytest.mark.parametrize(
    ("address", "param", "choices"),
    [
        ("jobs?kind=nonsense", "kind", ("fine_tune", "evaluate")),
        ("jobs?state=nonsense", "state", ("queued", "running")),
        ("requests?status=nonsense", "status", ("answered", "failed")),
        ("usage?by=nonsense", "by", ("day", "model", "key")),
    ],
)
def test_a_choice_that_there_is_not_is_refused_with_those_that_there_are(
    owner: APIClient, address: str, param: str, choices: tuple[str, ...]
) -> None:
    status, named, message = refused(owner.get(f"/api/v1/tenants/acme/{address}"))
    assert (status, named) == (422, param)
    assert message.startswith("'nonsense' is not one of ")
    assert all(choice in message for choice in choices)
