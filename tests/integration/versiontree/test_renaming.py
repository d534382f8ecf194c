"""A model gets another name: calls, versions, jobs and batches of it, and who is refused."""

import io
import json
from pathlib import Path

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from inference.batches.services.batches import batch_cancel, batch_create
from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode
from tenants.datasets.services.files import file_create
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.services.hplms import hplm_create, hplm_delete, hplm_rename, hplm_update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def test_a_renamed_model_is_called_by_its_new_name_only(
    model: Version,
    acme: TenantFixture,
    key: APIClient,
    artifact_root: Path,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    key.put(f"{V1}/models/spam/aliases/live", {"version": 1})
    with django_capture_on_commit_callbacks(execute=True):
        renamed = key.patch(f"{V1}/models/spam", {"name": "junk"})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "junk")
    assert {alias["name"]: alias["version"] for alias in renamed.json()["aliases"]} == {
        "default": 1,
        "live": 1,
    }
    assert error(key.get(f"{V1}/models/spam")) == (404, "not_found", None)
    for reference in ("junk", "acme/junk@live", "junk:1"):
        assert resolve_model(acme.tenant, reference).digest == model.digest
    refused(lambda: resolve_model(acme.tenant, "spam"), ErrorCode.NOT_FOUND, "model")
    assert list(json.loads((artifact_root / "manifest.json").read_bytes())["hplms"]) == ["acme/junk:1"]
    event = AuditEvent.objects.for_tenant(acme.tenant).get(verb="model.rename")
    assert (event.subject, event.detail) == ("acme/junk", {"from": "spam", "to": "junk"})


def test_a_version_that_is_being_trained_becomes_one_of_the_renamed_model(
    model: Version, acme: TenantFixture, key: APIClient
) -> None:
    second = hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None)
    assert key.patch(f"{V1}/models/spam", {"name": "junk"}).status_code == 200
    tree_factory.do_jobs(second)
    assert resolve_model(acme.tenant, "junk").version_number == 2


def test_the_former_name_is_free_and_a_taken_one_is_refused(
    model: Version, root: Version, acme: TenantFixture, globex: TenantFixture, key: APIClient
) -> None:
    tree_factory.ready_hplm(root, "other", globex)
    assert key.patch(f"{V1}/models/spam", {"name": "other"}).status_code == 200
    hplm_create(tenant=acme.tenant, name="spam", parent=root, dataset=acme.dataset, actor=None)
    assert error(key.patch(f"{V1}/models/spam", {"name": "other"})) == (409, "conflict", "name")
    assert error(key.patch(f"{V1}/models/spam", {"name": "No Name"})) == (422, "invalid_field", "name")
    assert key.patch(f"{V1}/models/spam", {"name": "spam"}).status_code == 200
    assert AuditEvent.objects.for_tenant(acme.tenant).filter(verb="model.rename").count() == 1


def test_a_model_keeps_its_name_while_a_batch_calls_it(
    model: Version, acme: TenantFixture, key: APIClient
) -> None:
    lines = file_create(
        tenant=acme.tenant, purpose="batch", filename="in", stream=io.BytesIO(b"a text"), actor=None
    )
    batch = batch_create(tenant=acme.tenant, file=lines, actor=None, model="spam")
    assert error(key.patch(f"{V1}/models/spam", {"name": "junk"})) == (409, "has_dependents", "name")
    batch_cancel(batch=batch, actor=None)
    assert key.patch(f"{V1}/models/spam", {"name": "junk"}).status_code == 200


def test_a_deleted_model_is_not_renamed(model: Version) -> None:
    hplm = tree_factory.hplm_of(model)
    hplm_delete(hplm=hplm, actor=None)
    refused(lambda: hplm_rename(hplm=hplm, name="junk", actor=None), ErrorCode.NOT_FOUND, "model")
