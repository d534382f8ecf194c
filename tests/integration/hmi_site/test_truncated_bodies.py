"""Nothing is done for a request whose body did not arrive whole: the web server as the launcher starts it."""

import json

import pytest

from tenants.accounts.models import ApiKey
from tenants.datasets.models import Corpus, File, Upload
from tenants.webhooks.models import WebhookEndpoint
from tests.integration.hmi_site.wire import Said, Wire, chunk
from tests.integration.serving_faults.servers import Web
from tests.integration.world import World

pytestmark = pytest.mark.slow

HOOK = json.dumps({"url": "https://example.org/", "kinds": ["job.failed"]}).encode()
JSON = "Content-Type: application/json"
FORM = "Content-Type: multipart/form-data; boundary=x"
NAME = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nnews\r\n'
FILE = (
    b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    + NAME
    + b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{"text": "a"}\n'
    b"\r\n--x--\r\n"
)


def ask(web: Web, method: str, path: str, *headers: str, body: bytes = b"", whole: bool = False) -> Said:
    """Send a request, then end the connection or wait, and see what is said."""
    with Wire(web.url) as wire:
        wire.begin(method, path, *headers)
        wire.send(body)
        if not whole:
            wire.say_no_more()
        return wire.answer()


def made() -> list[int]:
    """How much there is that a request might have made."""
    return [model.unscoped.count() for model in (WebhookEndpoint, ApiKey, Corpus, File, Upload)]


def short(body: bytes) -> str:
    """A length that is ten too many."""
    return f"Content-Length: {len(body) + 10}"


def test_no_address_does_anything_on_half_a_request(web: Web, served: World) -> None:
    key = f"X-Api-Key: {served.key()[1]}"
    infer = f"X-Api-Key: {served.key('infer')[1]}"
    chunked = "Transfer-Encoding: chunked"
    before = made()
    asked = [
        ask(web, "POST", "/api/v1/webhooks", key, JSON, short(HOOK), body=HOOK),
        ask(web, "POST", "/api/v1/webhooks", key, JSON, chunked, body=chunk(HOOK)),
        ask(web, "POST", "/api/v1/corpora", key, FORM, short(FILE), body=FILE),
        ask(web, "POST", "/api/v1/corpora", key, FORM, chunked, body=chunk(FILE)),
        ask(web, "POST", "/v1/files", key, FORM, short(FILE), body=FILE),
        ask(web, "POST", "/v1/files", key, FORM, chunked, body=chunk(FILE)),
        ask(web, "POST", "/api/v1/uploads", key, "Upload-Length: 5", short(b"")),  # it has no body
        ask(web, "POST", "/api/v1/infer", infer, JSON, short(b"{}"), body=b"{}"),  # on the event loop
        ask(web, "POST", "/api/v1/infer", infer, JSON, chunked, body=chunk(b"{}")),
        ask(web, "POST", "/v1/embeddings", infer, JSON, short(b"{}"), body=b"{}"),
        ask(web, "GET", "/api/v1/models", key, short(b"")),
    ]
    assert [(said.status, said.code) for said in asked] == [(400, "body_truncated")] * len(asked)
    oip = ask(web, "POST", "/v2/models/mood/infer", infer, JSON, short(b"{}"), body=b"{}")
    assert (oip.status, oip.json()) == (400, {"error": "The connection ended before the body was complete."})
    for page in ("/login/", "/t/acme/jobs/6f2d4c1e-0000-4000-8000-000000000000/live/"):
        for said in (ask(web, "GET", page, short(b"")), ask(web, "POST", page, short(b"a=b"), body=b"a=b")):
            assert (said.status, said.headers["content-type"]) == (400, "text/html; charset=utf-8"), page
    assert made() == before
    assert (
        ask(
            web, "POST", "/api/v1/webhooks", key, JSON, chunked, body=chunk(HOOK) + b"0\r\n\r\n", whole=True
        ).status
        == 201
    )


def test_a_length_that_is_unclear_is_refused(web: Web, served: World) -> None:
    key = f"X-Api-Key: {served.key()[1]}"
    before = made()
    for headers in (
        ["Content-Length: -1"],
        ["Content-Length: +2"],
        ["Content-Length: 2, 2"],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: identity"],
    ):
        body = chunk(HOOK) + b"0\r\n\r\n" if "chunked" in headers[0] else HOOK
        assert ask(web, "POST", "/api/v1/webhooks", key, JSON, *headers, body=body, whole=True).status == 400
    assert made() == before


def test_nothing_is_hidden_behind_a_body_with_two_lengths(web: Web, served: World) -> None:
    """The web server takes the chunks, drops Content-Length and, as RFC 9112 demands, hangs up."""
    key = f"X-Api-Key: {served.key()[1]}"
    before = made()
    with Wire(web.url) as wire:
        wire.begin("POST", "/api/v1/models", key, JSON, "Content-Length: 5", "Transfer-Encoding: chunked")
        hidden = f"POST /api/v1/webhooks HTTP/1.1\r\n{key}\r\nContent-Length: {len(HOOK)}\r\n\r\n".encode()
        wire.send(chunk(b"{}") + b"0\r\n\r\n" + hidden + HOOK)
        assert wire.answer().status == 422
        assert wire.answer().status == 0
    assert made() == before
