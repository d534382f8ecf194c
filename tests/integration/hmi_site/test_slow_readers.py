"""Clients that ask for files and read nothing, at the web server as the launcher starts it."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import httpx
import pytest
from django.conf import settings

from tenants.base.upload_concurrency import MAX_CONCURRENT_DOWNLOADS
from tests.integration.hmi_site.wire import Wire
from tests.integration.serving_faults.servers import Web
from tests.integration.world import World
from tests.processes import wait_until

pytestmark = pytest.mark.slow

LARGE = b'{"text": "a"}\n' * (24 * 1024**2 // 14)
"""More than what is between a program and another one on this machine."""
BUNDLE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js.map"
THREADS = 3
LITTLE = 4096
HURRIED = {"application": "tests.integration.hmi_site.hurried:application"}
FEW = {"HMI_WEB_THREADS": str(THREADS)}


@pytest.fixture
def open_wires() -> Iterator[ExitStack]:
    """Connections that last as long as the test."""
    with ExitStack() as open_wires:
        yield open_wires


def kept(web: Web, key: str) -> str:
    """The address of the content of a large file."""
    with httpx.Client(headers={"X-Api-Key": key}, trust_env=False, timeout=60) as client:
        file, data = {"file": ("a.jsonl", LARGE)}, {"purpose": "batch"}
        made = client.post(f"{web.url}/v1/files", files=file, data=data)
    assert made.status_code == 200, made.text
    return f"/v1/files/{made.json()['id']}/content"


def asking(web: Web, path: str, open_wires: ExitStack, *headers: str) -> Wire:
    """A client that has asked and does not read."""
    wire = open_wires.enter_context(Wire(web.url, receive_buffer=LITTLE))
    wire.begin("GET", path, *headers)
    wait_until(wire.has_something)
    return wire


def get(web: Web, path: str, key: str = "", *, within_s: float = 30) -> httpx.Response:
    headers = {"X-Api-Key": key} if key else {}
    return httpx.get(f"{web.url}{path}", headers=headers, trust_env=False, timeout=within_s)


@pytest.mark.parametrize("web", [FEW], indirect=True)
def test_idle_downloads_hold_no_thread_and_no_connection_to_the_database(
    web: Web, served: World, open_wires: ExitStack
) -> None:
    key = served.key()[1]
    path = kept(web, key)
    for _ in range(MAX_CONCURRENT_DOWNLOADS):
        asking(web, path, open_wires, f"X-Api-Key: {key}")
    for _ in range(2 * THREADS):
        asking(web, BUNDLE, open_wires)
    assert get(web, "/api/v1/models", key).status_code == 200
    assert get(web, "/health/live").status_code == 200

    refused = get(web, path, key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) > 0
    assert get(web, "/static/frontend/base.css").status_code == 200

    open_wires.close()
    wait_until(lambda: get(web, path, key).status_code == 200)
    assert get(web, path, key).content == LARGE


def test_idle_connections_do_not_block_new_ones(web: Web, open_wires: ExitStack) -> None:
    for _ in range(settings.HMI_WEB_THREADS + settings.HMI_LIVE_STREAMS + 50):
        open_wires.enter_context(Wire(web.url))
    assert get(web, "/health/live", within_s=20).status_code == 200  # before the first of them are given up


@pytest.mark.parametrize("web", [HURRIED], indirect=True)
def test_connection_of_a_client_that_does_not_read_is_closed(
    web: Web, served: World, open_wires: ExitStack
) -> None:
    key = served.key()[1]
    path = kept(web, key)
    asleep = [asking(web, path, open_wires, f"X-Api-Key: {key}") for _ in range(MAX_CONCURRENT_DOWNLOADS)]
    wait_until(lambda: web.output().count("the client reads too slowly") == len(asleep))
    for wire in asleep:
        with pytest.raises(ConnectionError):
            list(iter(partial(wire.socket.recv, 65536), b""))
    wait_until(lambda: get(web, path, key).status_code == 200)  # each has given its place back
    assert get(web, path, key).content == LARGE
    assert "Traceback" not in web.output()
