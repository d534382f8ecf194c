"""A client of others' making against the web server as the launcher starts it."""

import hashlib
import random
from collections.abc import Iterator
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

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_platform_scope")]

MEBIBYTE = 1024**2


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


def test_tus_client_resumes_after_the_web_server_was_killed(web: Web, key: str, content: Path) -> None:
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


def test_large_piece_is_not_held_in_memory(web: Web, key: str, tmp_path: Path) -> None:
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


def _new(web: Web, key: str, size: int) -> str:
    headers = {"X-Api-Key": key, "Upload-Length": str(size), "Tus-Resumable": "1.0.0"}
    answer = httpx.post(f"{web.url}/api/v1/uploads", headers=headers, trust_env=False, timeout=60)
    assert answer.status_code == 201, answer.text
    return str(answer.headers["Location"])


def _memory(web: Web) -> int:
    process = psutil.Process(web.child.pid)
    return sum(int(one.memory_info().rss) for one in (process, *process.children(recursive=True)))
