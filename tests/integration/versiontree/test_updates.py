"""An update of a model goes on as the version before was trained, or says what it cannot go on from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_acme_scope")]

TRAINED = {"lora": 24, "adapter": 8, "pooling": "cls", "epochs": 3}


def create(key: APIClient, parent: Version, data: int, settings: Mapping[str, Any]) -> Version:
    body = {"name": "spam", "parent": parent.pk, "dataset": data, "settings": settings}
    made = key.post(f"{V1}/models", body)
    assert made.status_code == 201, made.content
    return tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))


def update(key: APIClient, data: int, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    body = {"dataset": data} | ({} if settings is None else {"settings": settings})
    made = key.post(f"{V1}/models/spam/versions", body)
    assert made.status_code == 201, made.content
    return dict(made.json())


def test_what_an_update_leaves_out_stays_as_it_was(
    root: Version, acme: TenantFixture, key: APIClient
) -> None:
    create(key, root, acme.dataset.pk, TRAINED)
    second = update(key, acme.dataset.pk)
    assert second["config"]["settings"] == TRAINED
    assert "warnings" not in second["config"]
    version = Version.unscoped.get(pk=second["id"])
    assert tree_factory.jobs_in_order(version)[0].params["settings"] == TRAINED
    tree_factory.do_jobs(version)
    third = update(key, acme.dataset.pk, {"epochs": 5, "adapter": 8})
    assert third["config"]["settings"] == TRAINED | {"epochs": 5}
    assert "warnings" not in third["config"]


def test_the_adapters_of_a_decoder_s_model_are_chosen_and_bounded_over_the_api(
    acme: TenantFixture, key: APIClient, tmp_path: Path
) -> None:
    decoder = tree_factory.ready_decoder(tmp_path)
    texts = tree_factory.dataset(acme.tenant, "texts", task="generation")
    chosen = {"lora": 0, "adapter": 1024, "output_adapter": 8}
    body = {"name": "writer", "parent": decoder.pk, "dataset": texts.pk, "settings": chosen}
    for wrong, param in ({"adapter": 1025}, "settings.adapter"), ({"lora": 0}, "settings.lora"):
        refused = key.post(f"{V1}/models", body | {"settings": wrong})
        assert error(refused) == (422, "invalid_field", param)
    made = key.post(f"{V1}/models", body)
    assert made.status_code == 201, made.content
    assert made.json()["config"]["settings"] == chosen


def test_the_version_that_serves_is_the_one_whose_settings_stay(
    root: Version, acme: TenantFixture, key: APIClient
) -> None:
    create(key, root, acme.dataset.pk, TRAINED)
    tree_factory.do_jobs(Version.unscoped.get(pk=update(key, acme.dataset.pk, {"lora": 4})["id"]))
    assert key.put(f"{V1}/models/spam/aliases/default", {"version": 1}).status_code == 200
    assert update(key, acme.dataset.pk)["config"]["settings"] == TRAINED
