"""Files that come in pieces, by the tus protocol: interrupted, resumed, verified."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from tenants.base.errors import HmiError
from tenants.base.scope import tenant_scope
from tenants.datasets.append_only_file import TAIL_BYTES, append_chunks
from tenants.datasets.models import Upload
from tenants.datasets.services.uploads import Checksum, upload_append, upload_create
from tenants.datasets.storage import CHUNK_BYTES, upload_store
from tests.integration.tenants.content import CORPUS, stored, stream
from tests.integration.tenants.tus import TUS, b64, begun, digest_header, offset_of, send
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")

CONTENT = CORPUS.encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def test_upload_in_three_pieces_has_the_sha256_of_the_file(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, len(CONTENT))
    for start in range(0, len(CONTENT), 500):
        piece = CONTENT[start : start + 500]
        answer = send(client, address, piece, start, digest_header(CONTENT))
        assert (answer.status_code, answer["Upload-Offset"]) == (204, str(min(start + 500, len(CONTENT))))
    shown = client.get(address).json()
    assert (shown["filename"], shown["offset"], shown["sha256"]) == ("news.txt", len(CONTENT), SHA256)


def test_upload_shows_the_sha256_of_its_last_mebibyte(world: World) -> None:
    client = world.client(world.developer)
    size = TAIL_BYTES + 100
    content = bytes(number % 251 for number in range(size))
    address = begun(client, size)
    for arrived in (0, 100, TAIL_BYTES, size):
        offset = offset_of(client, address)
        send(client, address, content[offset:arrived], offset)
        tail = content[max(0, arrived - TAIL_BYTES) : arrived]
        shown = client.get(address).json()
        assert (shown["offset"], shown["tail_sha256"]) == (arrived, hashlib.sha256(tail).hexdigest())


def test_piece_at_another_offset_is_refused_with_the_offset(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    send(client, address, b"a" * 40)
    for offset in (0, 39, 41, 100):
        refused = send(client, address, b"b" * 10, offset)
        assert refused.status_code == 409
        assert refused.json()["error"]["details"] == {"offset": 40}
    assert offset_of(client, address) == 40


def test_piece_beyond_the_size_is_refused_whole(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, CHUNK_BYTES + 100)
    send(client, address, b"a" * 40)
    refused = send(client, address, b"b" * (CHUNK_BYTES + 100), 40)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "body_too_large")
    assert offset_of(client, address) == 40
    assert send(client, address, b"b" * (CHUNK_BYTES + 60), 40).status_code == 204


def test_piece_with_a_wrong_checksum_is_refused_whole(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    right = b64(hashlib.sha256(b"a" * 50).digest())
    assert send(client, address, b"b" * 50, headers={"Upload-Checksum": f"sha256 {right}"}).status_code == 460
    assert offset_of(client, address) == 0
    assert send(client, address, b"a" * 50, headers={"Upload-Checksum": f"sha256 {right}"}).status_code == 204
    unknown = send(client, address, b"a" * 50, 50, {"Upload-Checksum": "crc32 AAAA"})
    assert (unknown.status_code, offset_of(client, address)) == (400, 50)


class Endless:
    """A body that never ends; says how much of it was read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def read(self, size: int, /) -> bytes:
        """More of it."""
        self.read_bytes += size
        assert self.read_bytes < 10**8, "nobody stops"
        return b"a" * size


def test_piece_with_a_checksum_is_read_up_to_the_size_of_the_upload(world: World) -> None:
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


def test_upload_with_another_digest_is_deleted(committed: World, upload_root: Path) -> None:
    client = committed.client(committed.developer)
    for promise in ({}, {"sha256": SHA256}):
        address = begun(client, len(CONTENT), **promise)
        damaged = b"X" + CONTENT[1:]
        headers = {} if promise else digest_header(CONTENT)
        refused = send(client, address, damaged, headers=headers)
        assert refused.status_code == 460
        assert "arrived damaged" in refused.json()["error"]["message"]
        assert client.head(address, headers=TUS).status_code == 404
    assert not stored(upload_root)


def test_empty_upload_is_complete_at_once(world: World) -> None:
    client = world.client(world.developer)
    assert client.get(begun(client, 0)).json()["sha256"] == hashlib.sha256(b"").hexdigest()


class Breaking:
    """A body whose connection breaks after some bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = stream(content)

    def read(self, size: int, /) -> bytes:
        """What there is; then the break."""
        if piece := self._content.read(min(size, 100)):
            return piece
        raise OSError("connection reset")


def test_broken_connection_keeps_the_bytes_that_arrived(world: World) -> None:
    upload = upload_create(tenant=world.tenant, filename="a", size=1000, actor=world.developer)
    assert upload_append(upload=upload, stream=Breaking(b"a" * 250), offset=0) == 250
    assert upload_append(upload=upload, stream=stream(b"b" * 750), offset=250) == 1000
    assert upload_store().upload_path(upload.pk).read_bytes() == b"a" * 250 + b"b" * 750
    assert upload.is_complete


def test_writer_stops_after_another_appended(world: World) -> None:
    upload = upload_create(tenant=world.tenant, filename="a", size=30, actor=world.developer)
    path = upload_store().upload_path(upload.pk)

    def slow() -> Iterator[bytes]:
        yield b"a" * 10
        append_chunks(path, [b"b" * 10], offset=10, max_size=30)  # its client is back, by another connection
        yield b"a" * 10

    with pytest.raises(HmiError) as refused:
        append_chunks(path, slow(), offset=0, max_size=30)
    assert refused.value.details == {"offset": 20}
    assert path.read_bytes() == b"a" * 10 + b"b" * 10


def test_concurrent_writers_write_each_byte_once(committed: World, upload_root: Path) -> None:
    size = 40_000
    content = bytes(number % 251 for number in range(size))
    upload = upload_create(tenant=committed.tenant, filename="a", size=size, actor=committed.developer)
    path = upload_store().upload_path(upload.pk)
    barrier = threading.Barrier(8)

    refused: list[HmiError] = []

    def write() -> None:
        barrier.wait()
        while (offset := path.stat().st_size) < size:
            try:
                with tenant_scope(committed.tenant):
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
