"""A client of others' making against the web server as the launcher starts it."""

import hashlib
import random
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx
import psutil
import pytest
from django.conf import settings as django_settings
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError, TusUploadFailed

from hmi_site.launcher.web_server import choose_port
from tests.integration.serving_faults.servers import Web
from tests.integration.tenants.tus import PIECE
from tests.integration.world import World, make_world
from tests.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_platform_scope")]

MEBIBYTE = 1024**2
PIECES, PIECE_BYTES = 32, 64 * MEBIBYTE
SIZE = PIECES * PIECE_BYTES
SHORT_LINES = 40_000
LONG_LINE = b"the parcel has not arrived " * (MEBIBYTE // 27) + b"\n"


@pytest.fixture
def world(transactional_db: None, upload_root: Path) -> World:
    """The small world, committed, so that another process sees it."""
    return make_world()


@pytest.fixture
def programs_env(world: World, service_env: dict[str, str]) -> dict[str, str]:
    """What the product's programs are told, the folder of this test's uploads among it."""
    return {**service_env, "HMI_UPLOAD_ROOT": str(django_settings.HMI_UPLOAD_ROOT)}


@pytest.fixture
def web(world: World, programs_env: dict[str, str], tmp_path: Path) -> Iterator[Web]:
    """The web server."""
    port = choose_port("127.0.0.1", 18_600)
    with port.listener:
        web = Web(port, programs_env, tmp_path / "web.log")
        web.start()
        yield web
        web.stop()


@pytest.fixture
def content(tmp_path: Path) -> Path:
    """A file of 24 MiB."""
    path = tmp_path / "big.txt"
    path.write_bytes(random.Random(3).randbytes(24 * MEBIBYTE))
    return path


@pytest.fixture
def key(world: World) -> str:
    """A key that may upload."""
    return world.key("manage")[1]


def client_of(web: Web, key: str) -> TusClient:
    """A stock client of the protocol."""
    return TusClient(f"{web.url}/api/v1/uploads", headers={"Authorization": f"Bearer {key}"})


def state(key: str, address: str | None) -> dict[str, object]:
    """What the server says of an upload."""
    headers = {"X-Api-Key": key}
    found: dict[str, object] = httpx.get(str(address), headers=headers, trust_env=False, timeout=60).json()
    return found


def test_a_stock_client_resumes_after_the_web_server_was_killed(web: Web, key: str, content: Path) -> None:
    options = {"chunk_size": 4 * MEBIBYTE, "metadata": {"filename": "big.txt"}, "upload_checksum": True}
    begun = client_of(web, key).uploader(str(content), **options)
    begun.upload(stop_at=8 * MEBIBYTE)
    web.kill()
    with pytest.raises((TusCommunicationError, TusUploadFailed)):
        begun.upload()
    web.start()
    resumed = client_of(web, key).uploader(str(content), url=begun.url, **options)
    assert resumed.offset == 8 * MEBIBYTE
    resumed.upload()
    found = state(key, begun.url)
    assert (found["offset"], found["sha256"]) == (
        24 * MEBIBYTE,
        hashlib.sha256(content.read_bytes()).hexdigest(),
    )


def test_a_connection_that_breaks_within_a_piece_leaves_what_it_brought(web: Web, key: str) -> None:
    url = _new(web, key, 8 * MEBIBYTE)
    host, port = web.url.removeprefix("http://").split(":")
    head = (
        f"PATCH {httpx.URL(url).path} HTTP/1.1\r\nHost: {host}:{port}\r\nX-Api-Key: {key}\r\n"
        f"Content-Type: {PIECE}\r\nUpload-Offset: 0\r\nContent-Length: {8 * MEBIBYTE}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + b"a" * (5 * MEBIBYTE))
        wait_until(lambda: int(str(state(key, url)["offset"])) >= 4 * MEBIBYTE)
    wait_until(lambda: state(key, url)["offset"] == 5 * MEBIBYTE)


def test_a_file_in_one_piece_is_not_held_in_memory(web: Web, key: str, tmp_path: Path) -> None:
    size = 256 * MEBIBYTE
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(size)
    url = _new(web, key, size)
    before = _memory(web)
    headers = {"X-Api-Key": key, "Content-Type": PIECE, "Upload-Offset": "0", "Content-Length": str(size)}
    with path.open("rb") as file:
        answer = httpx.patch(url, content=file, headers=headers, timeout=120, trust_env=False)
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (204, str(size))
    assert _memory(web) - before < 100 * MEBIBYTE


def piece_of(number: int) -> bytes:
    """A piece of a file of 2 GiB that is stored nowhere: differing short lines, then long ones."""
    short = b"".join(
        b"%02d of the parcels came, number %09d\n" % (number, line) for line in range(SHORT_LINES)
    )
    return (short + LONG_LINE * 64)[: PIECE_BYTES - 1] + b"\n"


def rest_of(at: int, kills: Web | None) -> Iterator[bytes]:
    """The bytes of that file from a place on. A server that is to be killed is after 700 MiB."""
    sent = 0
    for number in range(at // PIECE_BYTES, PIECES):
        piece = piece_of(number)
        for begins in range(max(at - number * PIECE_BYTES, 0), PIECE_BYTES, MEBIBYTE):
            if kills and sent > 700 * MEBIBYTE:
                kills.kill()
            yield piece[begins : min(begins + MEBIBYTE, PIECE_BYTES)]
            sent += MEBIBYTE


@pytest.mark.thorough
def test_two_gibibytes_arrive_though_the_server_dies_twice_and_are_not_held_in_memory(
    web: Web, key: str
) -> None:
    url, at = _new(web, key, SIZE), 0
    for dies in (True, True, False):
        before = _memory(web)
        headers = {
            "X-Api-Key": key,
            "Content-Type": PIECE,
            "Upload-Offset": str(at),
            "Content-Length": str(SIZE - at),
        }
        with pytest.raises(httpx.TransportError) if dies else nullcontext():
            httpx.patch(
                url,
                content=rest_of(at, kills=web if dies else None),
                headers=headers,
                timeout=120,
                trust_env=False,
            )
        if dies:
            web.start()
            came, at = at, int(str(state(key, url)["offset"]))
            assert at > came + 500 * MEBIBYTE
    assert _memory(web) - before < 100 * MEBIBYTE
    digest = hashlib.sha256()
    for number in range(PIECES):
        digest.update(piece_of(number))
    assert (state(key, url)["offset"], state(key, url)["sha256"]) == (SIZE, digest.hexdigest())


def _new(web: Web, key: str, size: int) -> str:
    headers = {"X-Api-Key": key, "Upload-Length": str(size), "Tus-Resumable": "1.0.0"}
    answer = httpx.post(f"{web.url}/api/v1/uploads", headers=headers, trust_env=False, timeout=60)
    assert answer.status_code == 201, answer.text
    return str(answer.headers["Location"])


def _memory(web: Web) -> int:
    process = psutil.Process(web.child.pid)
    return sum(int(one.memory_info().rss) for one in (process, *process.children(recursive=True)))
