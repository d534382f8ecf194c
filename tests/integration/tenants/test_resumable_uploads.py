"""Uploads in pieces, by the tus protocol: interrupted, resumed, verified, refused, expired."""

import hashlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from tenants.arriving import append
from tenants.errors import HmiError
from tenants.models import Quota, Upload
from tenants.receiving import PIECES_AT_ONCE, receiving
from tenants.selectors import storage_used
from tenants.services.alone import alone
from tenants.services.uploads import (
    Checksum,
    upload_append,
    upload_create,
    upload_delete,
    upload_receive,
    uploads_expire,
    uploads_spend,
)
from tenants.storage import ARRIVING, upload_store
from tests.integration.tenants.content import CORPUS, stored, stream
from tests.integration.tenants.tus import (
    TUS,
    UPLOADS,
    b64,
    begin,
    begun,
    digest_header,
    offset_of,
    send,
    sent,
)
from tests.integration.world import World, make_world

CONTENT = CORPUS.encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def test_the_server_says_what_of_the_protocol_it_speaks(world: World) -> None:
    answer = world.client(world.developer).options(UPLOADS)
    assert (answer.status_code, answer["Tus-Version"]) == (204, "1.0.0")
    assert answer["Tus-Extension"] == "creation,checksum,expiration,termination"
    assert answer["Tus-Checksum-Algorithm"] == "sha256,sha1"


def test_a_file_in_three_pieces_is_complete_and_has_its_sha256(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, len(CONTENT))
    for start in range(0, len(CONTENT), 500):
        answer = send(client, address, CONTENT[start : start + 500], start)
        assert (answer.status_code, answer["Upload-Offset"]) == (204, str(min(start + 500, len(CONTENT))))
    shown = client.get(address).json()
    assert (shown["filename"], shown["offset"], shown["sha256"]) == ("news.txt", len(CONTENT), SHA256)


def test_a_piece_for_another_place_is_refused_and_the_right_place_is_said(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    send(client, address, b"a" * 40)
    for offset in (0, 39, 41, 100):
        refused = send(client, address, b"b" * 10, offset)
        assert refused.status_code == 409
        assert refused.json()["error"]["details"] == {"offset": 40}
    assert offset_of(client, address) == 40


def test_more_than_was_announced_is_refused(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    assert send(client, address, b"a" * 101).status_code == 413
    assert offset_of(client, address) == 0


def test_a_piece_with_a_wrong_checksum_is_refused_and_nothing_of_it_stays(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    right = b64(hashlib.sha256(b"a" * 50).digest())
    assert send(client, address, b"b" * 50, headers={"Upload-Checksum": f"sha256 {right}"}).status_code == 460
    assert offset_of(client, address) == 0
    assert send(client, address, b"a" * 50, headers={"Upload-Checksum": f"sha256 {right}"}).status_code == 204
    unknown = send(client, address, b"a" * 50, 50, {"Upload-Checksum": "crc32 AAAA"})
    assert (unknown.status_code, offset_of(client, address)) == (422, 50)


class Endless:
    """A body that never ends; says how much of it was read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def read(self, size: int, /) -> bytes:
        """More of it."""
        self.read_bytes += size
        assert self.read_bytes < 10**8, "nobody stops"
        return b"a" * size


def test_of_a_piece_with_a_checksum_no_more_is_read_than_there_is_room_for(world: World) -> None:
    upload = upload_create(tenant=world.tenant, filename="a", size=100, actor=world.developer)
    upload_append(upload=upload, stream=stream(b"a" * 40), offset=0)
    checksum, body = Checksum("sha256", b64(hashlib.sha256(b"").digest())), Endless()
    with pytest.raises(HmiError) as refused:
        upload_append(upload=upload, stream=body, offset=40, checksum=checksum)
    assert refused.value.code == "body_too_large"
    read = body.read_bytes
    with pytest.raises(HmiError) as refused:
        upload_append(upload=upload, stream=body, offset=39, checksum=checksum)
    assert (refused.value.code, refused.value.details) == ("conflict", {"offset": 40})
    assert body.read_bytes == read
    right = Checksum("sha256", b64(hashlib.sha256(b"b" * 60).digest()))
    assert upload_append(upload=upload, stream=stream(b"b" * 60), offset=40, checksum=right) == 100


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
def test_no_connection_to_the_database_is_held_while_a_client_sends(
    transactional_db: None, upload_root: Path, checksum: Checksum | None
) -> None:
    world, body = make_world(), Watching()
    upload = upload_create(tenant=world.tenant, filename="a", size=100, actor=world.developer)
    upload_append(upload=upload, stream=body, offset=0, checksum=checksum, promised_sha256=SHA256)
    assert body.connected == [False]


def test_forms_are_read_without_a_connection_in_one_of_the_tenants_places(
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
            for _ in range(PIECES_AT_ONCE):
                others.enter_context(receiving(world.tenant.pk))
            refused = client.post(path, form, format="multipart")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full"), path


def test_what_is_here_already_is_taken_without_giving_up_a_lock(
    transactional_db: None, upload_root: Path
) -> None:
    world = make_world()
    with alone("a request") as ours:
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
        with alone(name) as ours:
            return ours
    finally:
        connection.close()


def test_one_tenant_sends_so_many_pieces_at_once_and_no_more(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    with ExitStack() as others:
        for _ in range(PIECES_AT_ONCE):
            others.enter_context(receiving(world.tenant.pk))
        refused = send(client, address, b"a" * 40)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert int(refused["Retry-After"]) > 0
        with receiving(world.other.pk):
            pass
    assert offset_of(client, address) == 0
    for offset in range(0, 100, 10):  # each gives its place back, refused or not
        assert send(client, address, b"a" * 10, 99).status_code == 409
        assert send(client, address, b"a" * 10, offset).status_code == 204


def test_a_file_that_is_not_what_was_promised_is_thrown_away(
    transactional_db: None, upload_root: Path
) -> None:
    world = make_world()
    client = world.client(world.developer)
    for promise in ({}, {"sha256": SHA256}):
        address = begun(client, len(CONTENT), **promise)
        damaged = b"X" + CONTENT[1:]
        headers = {} if promise else digest_header(CONTENT)
        refused = send(client, address, damaged, headers=headers)
        assert refused.status_code == 460
        assert "arrived damaged" in refused.json()["error"]["message"]
        assert client.head(address, headers=TUS).status_code == 404
    assert not stored(upload_root)


def test_a_file_that_is_what_was_promised_is_kept(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, len(CONTENT))
    send(client, address, CONTENT[:700])
    assert send(client, address, CONTENT[700:], 700, digest_header(CONTENT)).status_code == 204
    assert client.get(address).json()["sha256"] == SHA256


def test_another_version_of_the_protocol_is_refused(world: World) -> None:
    client = world.client(world.developer)
    answer = client.post(UPLOADS, headers={"Tus-Resumable": "0.2.2", "Upload-Length": "5"})
    assert (answer.status_code, answer["Tus-Version"]) == (412, "1.0.0")


@pytest.mark.parametrize("metadata", ["filename \xe9", "filename YQ", "filename /w=="])
def test_metadata_that_is_not_base64_of_utf8_is_refused(world: World, metadata: str) -> None:
    headers = {**TUS, "Upload-Length": "5", "Upload-Metadata": metadata}
    refused = world.client(world.developer).post(UPLOADS, headers=headers)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "Upload-Metadata")


def test_a_mark_with_a_nul_is_kept_without_it(world: World) -> None:
    client = world.client(world.developer)
    assert client.get(begun(client, 5, mark="a\0b")).json()["mark"] == "ab"


@pytest.mark.parametrize("length", ["", "-1", "1.5", "many", "9" * 30])
def test_a_length_that_is_none_is_refused(world: World, length: str) -> None:
    answer = world.client(world.developer).post(UPLOADS, headers={**TUS, "Upload-Length": length})
    assert answer.status_code == 422


def test_a_piece_of_another_type_is_refused(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 5)
    answer: Any = client.generic(
        "PATCH", address, "abcde", content_type="text/plain", headers={**TUS, "Upload-Offset": "0"}
    )
    assert answer.status_code == 415


def test_nobody_else_can_see_or_touch_an_upload(world: World) -> None:
    address = begun(world.client(world.developer), 100)
    _, others_key = world.key(tenant=world.other)
    _, own_key = world.key()
    bare = address.replace("/tenants/acme", "")
    callers = [
        (world.client(world.owner), address, 404),  # of the same tenant, but not whose it is
        (world.client(key=own_key), bare, 404),
        (world.client(world.viewer), address, 403),
        (world.client(world.stranger), address, 404),
        (world.client(world.stranger), address.replace("acme", "globex"), 404),
        (world.client(key=others_key), bare, 404),
        (world.client(), address, 401),
    ]
    for client, place, status in callers:
        assert send(client, place, b"a" * 10).status_code == status
        assert client.delete(place, headers=TUS).status_code == status
    assert offset_of(world.client(world.developer), address) == 0


def test_a_key_uploads_too_and_lists_its_own(world: World) -> None:
    _, plaintext = world.key()
    client = world.client(key=plaintext)
    answer = begin(client, 3, address="/api/v1/uploads", mark="42")
    address = answer["Location"].removeprefix("http://testserver")
    assert send(client, address, b"abc").status_code == 204
    begun(world.client(world.developer), 7)
    listed = client.get("/api/v1/uploads").json()["results"]
    assert [(one["mark"], one["offset"], one["size_bytes"]) for one in listed] == [("42", 3, 3)]


def test_an_upload_that_is_deleted_is_gone_with_its_file(transactional_db: None, upload_root: Path) -> None:
    world = make_world()
    client = world.client(world.developer)
    address = begun(client, 100)
    send(client, address, b"a" * 10)
    assert client.delete(address, headers=TUS).status_code == 204
    assert client.head(address, headers=TUS).status_code == 404
    assert not stored(upload_root)


def test_what_is_announced_counts_against_the_quota_until_it_is_deleted(world: World) -> None:
    Quota.unscoped.update_or_create(tenant=world.tenant, defaults={"max_storage_bytes": 1000})
    client = world.client(world.developer)
    address = begun(client, 800)
    assert storage_used(world.tenant) == 800
    refused = begin(client, 201)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
    client.delete(address, headers=TUS)
    assert begin(client, 1000).status_code == 201


def test_a_file_beyond_the_limit_is_refused_before_a_byte_is_sent(world: World, settings: Settings) -> None:
    settings.HMI_UPLOAD_MAX_BYTES = 100
    assert begin(world.client(world.developer), 101).status_code == 413


def test_an_empty_file_is_complete_at_once(world: World) -> None:
    client = world.client(world.developer)
    assert client.get(begun(client, 0)).json()["sha256"] == hashlib.sha256(b"").hexdigest()


def test_what_nobody_goes_on_with_expires_and_a_new_piece_puts_that_off(
    transactional_db: None, upload_root: Path, settings: Settings
) -> None:
    world = make_world()
    settings.HMI_UPLOAD_LIFE_H = 2.0
    client = world.client(world.developer)
    left, alive = begun(client, 100), begun(client, 100)
    Upload.unscoped.update(expires_at=timezone.now() + timedelta(seconds=60))
    send(client, alive, b"a")
    Upload.unscoped.filter(pk=left.rpartition("/")[2]).update(expires_at=timezone.now())
    assert client.head(left, headers=TUS).status_code == 404
    assert storage_used(world.tenant) == 100
    assert uploads_expire() == 1
    assert {path.rpartition("/")[2] for path in stored(upload_root)} == {alive.rpartition("/")[2]}
    remaining = Upload.objects.for_tenant(world.tenant).get().expires_at - timezone.now()
    assert timedelta(hours=1.9) < remaining <= timedelta(hours=2)


def test_a_file_without_a_row_is_swept_once_it_is_old(world: World, upload_root: Path) -> None:
    folder = upload_root / ARRIVING
    folder.mkdir()
    for name, age_s in (("old", 7200), ("new", 10)):
        (folder / name).touch()
        moment = timezone.now().timestamp() - age_s
        os.utime(folder / name, (moment, moment))
    assert uploads_expire() == 1
    assert stored(upload_root) == {f"{ARRIVING}/new"}


def test_a_file_that_is_spent_while_old_ones_are_swept_is_passed_over(
    world: World, upload_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = upload_root / ARRIVING
    folder.mkdir()
    (folder / "old").touch()
    os.utime(folder / "old", (0, 0))
    found = [folder / "gone", folder / "old"]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(found))
    assert uploads_expire() == 1
    assert not (folder / "old").exists()


def test_what_is_gone_cannot_be_spent_but_may_be_deleted_once_more(world: World) -> None:
    upload = upload_create(tenant=world.tenant, filename="a", size=0, actor=world.developer)
    uploads_spend([upload, upload])
    with pytest.raises(HmiError) as refused:
        uploads_spend([upload])
    assert refused.value.code == "conflict"
    upload_delete(upload=upload)


class Breaking:
    """A body whose connection breaks after some bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = stream(content)

    def read(self, size: int, /) -> bytes:
        """What there is; then the break."""
        if piece := self._content.read(min(size, 100)):
            return piece
        raise OSError("connection reset")


def test_a_connection_that_breaks_leaves_what_it_brought(world: World) -> None:
    upload = upload_create(tenant=world.tenant, filename="a", size=1000, actor=world.developer)
    assert upload_append(upload=upload, stream=Breaking(b"a" * 250), offset=0) == 250
    assert upload_append(upload=upload, stream=stream(b"b" * 750), offset=250) == 1000
    assert upload_store().arriving(upload.pk).read_bytes() == b"a" * 250 + b"b" * 750
    assert upload.is_complete


def test_a_writer_that_was_overtaken_stops(world: World) -> None:
    upload = upload_create(tenant=world.tenant, filename="a", size=30, actor=world.developer)
    path = upload_store().arriving(upload.pk)

    def slow() -> Iterator[bytes]:
        yield b"a" * 10
        append(path, [b"b" * 10], at=10, most=30)  # its client is back, by another connection
        yield b"a" * 10

    with pytest.raises(HmiError) as refused:
        append(path, slow(), at=0, most=30)
    assert refused.value.details == {"offset": 20}
    assert path.read_bytes() == b"a" * 10 + b"b" * 10


def test_of_writers_at_one_upload_each_byte_is_written_once(
    transactional_db: None, upload_root: Path
) -> None:
    world = make_world()
    size = 40_000
    content = bytes(number % 251 for number in range(size))
    upload = upload_create(tenant=world.tenant, filename="a", size=size, actor=world.developer)
    path = upload_store().arriving(upload.pk)
    barrier = threading.Barrier(8)

    refused: list[HmiError] = []

    def write() -> None:
        barrier.wait()
        while (offset := path.stat().st_size) < size:
            try:
                mine = Upload.unscoped.get(pk=upload.pk)
                piece = Breaking(content[offset : offset + 1000])
                upload_append(upload=mine, stream=piece, offset=offset)
            except HmiError as error:
                refused.append(error)
        connection.close()

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {str(error.code) for error in refused} <= {"conflict"}
    assert path.read_bytes() == content
    assert Upload.unscoped.get(pk=upload.pk).sha256 == hashlib.sha256(content).hexdigest()


def test_an_upload_is_in_the_list_until_it_is_used(world: World) -> None:
    client = world.client(world.developer)
    key = sent(client, CONTENT)
    assert [one["id"] for one in client.get(UPLOADS).json()["results"]] == [key]
