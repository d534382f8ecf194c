"""Batches that have ended: fetching their answers, and deleting them: when, what goes, what stays."""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from inference.batches.models import Batch, BatchFormat
from inference.batches.services.batches import batch_create, batch_submit
from inference.batches.services.lifecycle import batch_attach_file, batch_complete
from tenants.accounts.models import User
from tenants.audit.models import AuditEvent
from tenants.base.advisory_lock import advisory_lock
from tenants.base.scope import platform_scope
from tenants.datasets.models import File
from tenants.datasets.selectors.uploads import storage_used
from tenants.datasets.services.files import file_create
from tests.integration.tenants.content import stored
from tests.integration.versiontree.admin_pages import act
from tests.integration.versiontree.callers import V1, error, with_key
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version

pytestmark = pytest.mark.usefixtures("in_platform_scope", "upload_root")


def sent(home: TenantFixture, name: str = "in") -> Batch:
    """A batch of one line."""
    line = io.BytesIO(f'"{name}"\n'.encode())
    return batch_submit(
        tenant=home.tenant, model="spam", filename=f"{name}.jsonl", stream=line, actor=home.owner
    )


def answered(batch: Batch) -> Batch:
    """It has ended, with one file of results and one of errors."""
    for kind in ("results", "errors"):
        content = io.BytesIO(f'{{"{kind}": 1}}\n'.encode())
        file = file_create(
            tenant=batch.tenant, purpose="batch_output", filename=f"{kind}.jsonl", stream=content, actor=None
        )
        batch_attach_file(batch, kind, file)
    Batch.unscoped.filter(pk=batch.pk).update(results_bytes=13, errors_bytes=12)
    batch_complete(batch=batch)
    return Batch.unscoped.get(pk=batch.pk)


def test_ended_batch_is_deleted_with_its_files(
    model: Version,
    acme: TenantFixture,
    globex: TenantFixture,
    upload_root: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    before, files = storage_used(acme.tenant), stored(upload_root)
    client, batch = with_key(acme, "infer", "manage"), sent(acme)
    where = f"{V1}/batches/{batch.pk}"
    assert error(client.delete(where))[:2] == (409, "invalid_transition")
    answered(batch)
    assert with_key(globex, "manage").delete(where).status_code == 404
    assert with_key(acme, "infer").delete(where).status_code == 403
    batch.folder.mkdir(parents=True)
    with django_capture_on_commit_callbacks(execute=True):
        assert client.delete(where).status_code == 204
    assert client.get(where).status_code == 404
    assert (storage_used(acme.tenant), stored(upload_root)) == (before, files)
    assert not batch.folder.exists()
    assert AuditEvent.unscoped.filter(verb="batch.delete", subject="in.jsonl").exists()


def test_deleted_batch_leaves_a_shared_input_file(model: Version, acme: TenantFixture) -> None:
    first = answered(sent(acme))
    shared = first.input
    assert shared is not None
    other = batch_create(tenant=acme.tenant, file=shared, actor=None, model="spam")
    of_requests = batch_create(
        tenant=acme.tenant, file=shared, actor=None, model="spam", line_format=BatchFormat.REQUESTS
    )
    client = with_key(acme, "infer", "manage")
    assert client.delete(f"{V1}/batches/{first.pk}").status_code == 204
    assert File.unscoped.get() == shared
    for batch in (other, of_requests):
        assert client.post(f"{V1}/batches/{batch.pk}/cancel").status_code == 200
    assert client.delete(f"{V1}/batches/{of_requests.pk}").status_code == 204
    assert File.unscoped.get() == shared
    assert client.delete(f"{V1}/batches/{other.pk}").status_code == 204
    assert not File.unscoped.exists()


def test_cancelled_batch_is_not_deleted_while_a_worker_has_its_lock(
    model: Version, acme: TenantFixture
) -> None:
    client, batch = with_key(acme, "infer", "manage"), sent(acme)
    where = f"{V1}/batches/{batch.pk}"
    client.post(f"{where}/cancel")
    held, done = Event(), Event()

    def work() -> None:
        with platform_scope(), advisory_lock(f"batch {batch.pk}"):
            held.set()
            done.wait()
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work)
        held.wait()
        refused = error(client.delete(where))
        done.set()
    assert refused[:2] == (409, "invalid_transition")
    assert client.delete(where).status_code == 204
    assert error(client.delete(where))[:2] == (404, "not_found")


def test_owners_and_staff_delete_and_cancel_batches(
    model: Version, acme: TenantFixture, client: Client
) -> None:
    page = "/t/acme/batches/"
    waiting, done, old = sent(acme, "waiting"), answered(sent(acme, "done")), answered(sent(acme, "old"))
    client.force_login(acme.owner)
    refused = client.post(f"{page}{waiting.pk}/delete/", follow=True).content.decode()
    assert "cancel it first" in refused
    assert "done.jsonl deleted" in client.post(f"{page}{done.pk}/delete/", follow=True).content.decode()

    client.force_login(User.objects.create_superuser("boss"))
    assert "1 canceled" in act(client, "batch", "cancel", waiting)
    assert "1 deleted" not in act(client, "batch", "remove", old, typed_name="wrong")
    gone = act(client, "batch", "remove", old, typed_name=str(old), return_to=str(old.pk))
    assert "1 deleted" in gone
    assert "Perhaps it was deleted" not in gone
    assert [row.pk for row in Batch.unscoped.all()] == [waiting.pk]
