"""Uploads hold no connection to the database, nor more than their share of the others."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from pytest_django import Settings

from tenants.base.advisory_lock import advisory_lock
from tenants.base.errors import HmiError
from tenants.base.upload_concurrency import MAX_CONCURRENT_UPLOADS, upload_slot
from tenants.datasets.services.uploads import Checksum, upload_append, upload_create, upload_receive
from tests.integration.tenants.content import CORPUS
from tests.integration.tenants.tus import b64, begun, offset_of, send
from tests.integration.world import World, make_world

pytestmark = pytest.mark.usefixtures("in_platform_scope")

CONTENT = CORPUS.encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Watching:
    """A body that notes whether the reader has a connection to the database."""

    def __init__(self) -> None:
        self.connected: list[bool] = []

    def read(self, _: int, /) -> bytes:
        """Nothing."""
        self.connected.append(connection.connection is not None)
        return b""

    readline = read


@pytest.mark.parametrize("checksum", [None, Checksum("sha256", b64(hashlib.sha256(b"").digest()))])
def test_database_connection_is_released_while_a_client_sends(
    transactional_db: None, upload_root: Path, checksum: Checksum | None
) -> None:
    world, body = make_world(), Watching()
    upload = upload_create(tenant=world.tenant, filename="a", size=100, actor=world.developer)
    upload_append(upload=upload, stream=body, offset=0, checksum=checksum, expected_sha256=SHA256)
    assert body.connected == [False]


def test_forms_are_read_without_a_database_connection_in_an_upload_slot(
    transactional_db: None, upload_root: Path
) -> None:
    world = make_world()
    client: Any = world.client(key=world.key()[1])
    form = {"file": SimpleUploadedFile("rows.jsonl", b"x"), "purpose": "batch", "name": "texts"}
    for path in ("/v1/files", "/api/v1/corpora", "/api/v1/datasets", "/api/v1/domains"):
        body = Watching()
        client.post(path, form, format="multipart", **{"wsgi.input": body})
        assert set(body.connected) == {False}, path
        with ExitStack() as others:
            for _ in range(MAX_CONCURRENT_UPLOADS):
                others.enter_context(upload_slot(world.tenant.pk))
            refused = client.post(path, form, format="multipart")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full"), path


def test_local_file_is_received_without_releasing_the_connection(
    transactional_db: None, upload_root: Path
) -> None:
    world = make_world()
    with advisory_lock("a request") as ours:
        assert ours
        upload_receive(
            tenant=world.tenant,
            filename="a",
            size=1,
            stream=SimpleUploadedFile("a", b"x"),
            actor=world.developer,
        )
        with ThreadPoolExecutor(1) as threads:
            assert not threads.submit(_is_free, "a request").result()


def _is_free(name: str) -> bool:
    try:
        with advisory_lock(name) as ours:
            return ours
    finally:
        connection.close()


def test_pieces_of_a_tenant_beyond_its_slots_are_refused(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    with ExitStack() as others:
        for _ in range(MAX_CONCURRENT_UPLOADS):
            others.enter_context(upload_slot(world.tenant.pk))
        refused = send(client, address, b"a" * 40)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert int(refused["Retry-After"]) > 0
        with upload_slot(world.other.pk):
            pass
    assert offset_of(client, address) == 0
    for offset in range(0, 100, 10):  # each gives its place back, refused or not
        assert send(client, address, b"a" * 10, 99).status_code == 409
        assert send(client, address, b"a" * 10, offset).status_code == 204


def test_uploads_take_at_most_half_of_the_web_threads(settings: Settings) -> None:
    settings.HMI_WEB_THREADS = 2 * MAX_CONCURRENT_UPLOADS
    with ExitStack() as others:
        for _ in range(MAX_CONCURRENT_UPLOADS):
            others.enter_context(upload_slot("one"))
        with pytest.raises(HmiError, match="Too many uploads in progress"), upload_slot("another"):
            pytest.fail("there was no place")
    with upload_slot("another"):
        pass
