"""Whose an upload is, what it counts for, and how it ends."""

import hashlib
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from pytest_django import Settings

from tenants.base.disk import disk_space
from tenants.base.errors import HmiError
from tenants.datasets.models import Corpus, Upload
from tenants.datasets.selectors.uploads import storage_used
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.uploads import (
    upload_create,
    upload_delete,
    upload_stored_file,
    uploads_consume,
    uploads_expire,
)
from tenants.datasets.storage import UPLOADS_FOLDER
from tenants.usage.models import Quota
from tests.integration.tenants.content import CORPUS, stored
from tests.integration.tenants.tus import TUS, b64, begin, begun, offset_of, send, sent
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def test_upload_is_not_found_by_others_of_its_tenant(world: World) -> None:
    address = begun(world.client(world.developer), 100)
    bare = address.replace("/tenants/acme", "")
    for client, place in ((world.client(world.owner), address), (world.client(key=world.key()[1]), bare)):
        assert send(client, place, b"a" * 10).status_code == 404
        assert client.delete(place, headers=TUS).status_code == 404
    assert offset_of(world.client(world.developer), address) == 0


@pytest.mark.parametrize("size", [100, 3 * 1024**2])  # a form is kept in memory, or on the disk
def test_files_are_refused_while_only_the_reserved_disk_space_is_free(
    world: World, upload_root: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    client, address, complete = world.client(world.developer), "", (CORPUS * (1 + size // len(CORPUS)))
    address = begun(client, len(complete))
    held = sent(client, complete.encode())
    whole = shutil.disk_usage(upload_root)
    reserved = disk_space(upload_root).reserved
    monkeypatch.setattr(shutil, "disk_usage", lambda _: whole._replace(free=reserved + 10))

    def form(place: str, field: str, **fields: str) -> Any:
        file = SimpleUploadedFile("a.txt", complete.encode())
        return client.post(f"/api/v1/tenants/acme/{place}", {**fields, field: file}, format="multipart")

    told = {"sha256": hashlib.sha256(complete.encode()).digest()}
    refused = [
        form("corpora", "file", name="books"),
        form("datasets", "train", name="mails", task="classification"),
        send(client, address, complete.encode()),
        send(
            client, address, complete.encode(), headers={"Upload-Checksum": f"sha256 {b64(told['sha256'])}"}
        ),
    ]
    found = [(answer.status_code, answer.json()["error"]["code"]) for answer in refused]
    assert found == [(422, "out_of_disk")] * len(refused)
    assert offset_of(client, address) == 0
    whole_file = upload_stored_file(Upload.unscoped.get(pk=held))
    with pytest.raises(HmiError, match="disk is full"):
        corpus_upload(tenant=world.tenant, name="held", stream=whole_file, filename="a.txt")
    assert not Corpus.unscoped.exists()


def test_key_lists_its_own_uploads(world: World) -> None:
    _, plaintext = world.key()
    client = world.client(key=plaintext)
    answer = begin(client, 3, address="/api/v1/uploads", fingerprint="42")
    address = answer["Location"].removeprefix("http://testserver")
    assert send(client, address, b"abc").status_code == 204
    begun(world.client(world.developer), 7)
    listed = client.get("/api/v1/uploads").json()["results"]
    assert [(one["fingerprint"], one["offset"], one["size_bytes"]) for one in listed] == [("42", 3, 3)]


def test_deleted_upload_is_gone_with_its_file(committed: World, upload_root: Path) -> None:
    client = committed.client(committed.developer)
    address = begun(client, 100)
    send(client, address, b"a" * 10)
    assert client.delete(address, headers=TUS).status_code == 204
    assert client.head(address, headers=TUS).status_code == 404
    assert not stored(upload_root)


def test_announced_size_counts_in_the_quota_until_deletion(world: World) -> None:
    Quota.unscoped.update_or_create(tenant=world.tenant, defaults={"max_storage_bytes": 1000})
    client = world.client(world.developer)
    address = begun(client, 800)
    assert storage_used(world.tenant) == 800
    refused = begin(client, 201)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
    client.delete(address, headers=TUS)
    assert begin(client, 1000).status_code == 201


def test_upload_expires_unless_a_piece_arrives(
    committed: World, upload_root: Path, settings: Settings
) -> None:
    settings.HMI_UPLOAD_EXPIRY_H = 2.0
    client = committed.client(committed.developer)
    left, alive = begun(client, 100), begun(client, 100)
    Upload.unscoped.update(expires_at=timezone.now() + timedelta(seconds=60))
    send(client, alive, b"a")
    Upload.unscoped.filter(pk=left.rpartition("/")[2]).update(expires_at=timezone.now())
    assert client.head(left, headers=TUS).status_code == 404
    assert storage_used(committed.tenant) == 100
    assert uploads_expire() == 1
    assert {path.rpartition("/")[2] for path in stored(upload_root)} == {alive.rpartition("/")[2]}
    remaining = Upload.objects.for_tenant(committed.tenant).get().expires_at - timezone.now()
    assert timedelta(hours=1.9) < remaining <= timedelta(hours=2)


def test_old_file_without_a_row_is_deleted(world: World, upload_root: Path) -> None:
    folder = upload_root / UPLOADS_FOLDER
    folder.mkdir()
    for name, age_s in (("old", 7200), ("new", 10)):
        (folder / name).touch()
        moment = timezone.now().timestamp() - age_s
        os.utime(folder / name, (moment, moment))
    assert uploads_expire() == 1
    assert stored(upload_root) == {f"{UPLOADS_FOLDER}/new"}


def test_used_upload_cannot_be_used_again(world: World) -> None:
    upload = upload_create(tenant=world.tenant, filename="a", size=0, actor=world.developer)
    uploads_consume([upload, upload])
    with pytest.raises(HmiError) as refused:
        uploads_consume([upload])
    assert refused.value.code == "conflict"
    upload_delete(upload=upload)
