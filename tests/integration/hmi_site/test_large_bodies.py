"""Large bodies, from whom they are taken and where, at the web server as the launcher starts it."""

import secrets
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from django.conf import settings as django_settings
from django.test import Client

from hmi_site.http.request_body import MAX_SLOW_BODIES_PER_SENDER
from inference.batches.models import Batch
from tests.integration.hmi_site.wire import Said, Wire, chunk
from tests.integration.serving_faults.servers import Web
from tests.integration.world import World
from tests.processes import wait_until

pytestmark = pytest.mark.slow

FORM = "Content-Type: multipart/form-data; boundary=x"
LARGE = 64 * 1024**2
PIECE = b"x" * 256 * 1024
THREADS = 3


def cookie(web: Web, name: str) -> str:
    """What the server calls it, by its port."""
    return f"hmi_{name}_{web.url.rpartition(':')[2]}"


def refused_early(web: Web, path: str, *headers: str) -> Said:
    """Begin a large form there; the answer comes although the form never does."""
    with Wire(web.url) as wire:
        wire.begin("POST", path, FORM, *headers)
        wire.send(b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n')
        return wire.answer()


def test_of_strangers_no_large_body_is_read_or_written_anywhere(web: Web, served: World) -> None:
    token = secrets.token_hex(16)
    forged = [f"Cookie: {cookie(web, 'csrf')}={token}", f"X-CSRFToken: {token}"]
    length = f"Content-Length: {LARGE}"
    for path in ("/v1/files", "/api/v1/corpora", "/t/acme/batches/", "/t/acme/models/import/"):
        for headers in ([], ["X-Api-Key: abcdefgh.abcdefghabcdefghabcdefghabcdefgh"], forged):
            assert refused_early(web, path, length, *headers).status == 401, path
    for path in ("/login/", "/api/v1/webhooks", "/nowhere/"):
        assert refused_early(web, path, length, *forged).status == 413, path
    key = f"X-Api-Key: {served.key()[1]}"
    assert refused_early(web, "/api/v1/webhooks", length, key).status == 413
    assert refused_early(web, "/v1/files", f"Content-Length: {10 * 1024**4}", key).status == 413
    with Wire(web.url) as wire:
        wire.begin("POST", "/t/acme/batches/", FORM, "Transfer-Encoding: chunked", *forged)
        for _ in range(5):  # chunks of which nobody knows how many come
            wire.send(chunk(PIECE))
        assert wire.answer().status == 401


def test_a_form_without_scripts_brings_a_large_file(web: Web, served: World) -> None:
    browser = Client()
    browser.force_login(served.developer)
    cookies = {cookie(web, "session"): browser.cookies[django_settings.SESSION_COOKIE_NAME].value}
    rows = b'"a good stone"\n' * 200_000
    with httpx.Client(base_url=web.url, cookies=cookies, trust_env=False, timeout=60) as client:
        assert client.get("/t/acme/batches/").status_code == 200
        token = client.cookies[cookie(web, "csrf")]

        def send(form: dict[str, str]) -> httpx.Response:
            return client.post("/t/acme/batches/", data=form, files={"file": ("rows.jsonl", rows)})

        assert send({"model": "mood"}).status_code == 403  # it has no token
        shown = send({"model": "mood", "csrfmiddlewaretoken": token})
    assert shown.status_code == 200
    assert "mood" in shown.text  # that model is not there, says the form
    assert not Batch.unscoped.exists()


@pytest.mark.parametrize("web", [{"HMI_WEB_THREADS": str(THREADS)}], indirect=True)
def test_slow_senders_hold_no_thread_and_only_so_many_places(web: Web, upload_root: Path) -> None:
    senders, held = 4 * THREADS, []
    with ExitStack() as connections:
        for _ in range(senders + MAX_SLOW_BODIES_PER_SENDER):
            wire = connections.enter_context(Wire(web.url))
            wire.begin("POST", "/api/v1/infer", "Content-Length: 100")
            wire.send(b"{")
            held.append(wire)
        assert httpx.get(f"{web.url}/health/live", trust_env=False, timeout=30).status_code == 200

        refused = {}

        def all_are_known() -> bool:
            for wire in held:
                if wire not in refused and wire.has_something():
                    refused[wire] = wire.answer()
            return len(refused) == senders

        wait_until(all_are_known)
        assert {(said.status, said.code) for said in refused.values()} == {(429, "queue_full")}
        assert all(int(said.headers["retry-after"]) > 0 for said in refused.values())
        assert httpx.get(f"{web.url}/login/", trust_env=False, timeout=30).status_code == 200
