"""Bodies that come slowly: no connection to the database waits with them, and no thread for ever."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection
from django.test import RequestFactory
from django.utils.datastructures import CaseInsensitiveMapping
from pytest_django import Settings

from tenants.webhooks.services.endpoints import webhook_create
from tests.integration.world import World, make_world
from tests.unit.hmi_site.slow_clock import slow_down
from tests.unit.hmi_site.test_wsgi_threads import Server, piece


def hook(world: World) -> str:
    """The address of a new webhook."""
    endpoint, _ = webhook_create(
        tenant=world.tenant, url="https://example.org/", kinds=["job.failed"], actor=world.owner
    )
    return f"/api/v1/webhooks/{endpoint.pk}"


class Coming(io.BytesIO):
    """A body that sees, whenever more of it is asked for, whether a connection is held."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(json.dumps(body).encode())
        self.held: list[bool] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.held.append(connection.connection is not None)
        return super().read(size)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_json_is_read_without_a_connection(transactional_db: None, upload_root: Any, method: str) -> None:
    world = make_world()
    key, one = world.key()[1], hook(world)
    body = Coming({"url": "https://example.org/", "kinds": ["job.failed"], "description": "new"})
    asked = RequestFactory().generic(
        method,
        "/api/v1/webhooks" if method == "POST" else one,
        body.getvalue(),
        "application/json",
        headers={"Authorization": f"Bearer {key}", "Idempotency-Key": "once"},
    )
    answer: Any = WSGIHandler()(asked.environ | {"wsgi.input": body}, lambda *_: print)
    assert answer.status_code == (201 if method == "POST" else 200)
    assert json.loads(answer.content)["description"] == "new"
    assert body.held
    assert not any(body.held)


def slowly(
    path: str, body: bytes, *headers: tuple[str, str], chunked: bool = False
) -> tuple[int, Any, bytes]:
    """Status, headers and content of the answer to a POST of whose body a byte comes every ten seconds."""
    size = ("transfer-encoding", "chunked") if chunked else ("content-length", str(len(body)))
    sent = [(name.encode(), value.encode()) for name, value in (("host", "localhost"), size, *headers)]
    pieces = [piece(bytes([byte])) for byte in body]
    server = Server(*pieces, piece(b"", more=False), path=path.encode(), headers=sent)
    content = server.ask(WSGIHandler())
    start = server.sent[0]
    told = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], CaseInsensitiveMapping(told), content


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("path", "content_type", "code"),
    [
        ("/api/v1/webhooks", "application/json", lambda error: error["error"]["code"]),
        ("/api/v1/corpora", "multipart/form-data; boundary=x", lambda error: error["error"]["code"]),
        ("/api/v1/infer", "application/json", lambda error: error["error"]["code"]),
        ("/v1/embeddings", "application/json", lambda error: error["error"]["code"]),
        ("/v1/chat/completions", "application/json", lambda error: error["error"]["code"]),
        (
            "/v2/models/mood/infer",
            "application/json",
            lambda error: "body_too_slow" * ("did not" in error["error"]),
        ),
    ],
)
def test_a_body_that_stalls_is_refused_in_the_shape_of_its_address(
    transactional_db: None,
    upload_root: Any,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    content_type: str,
    code: Callable[[Any], str],
    chunked: bool,
) -> None:
    key = make_world().key()[1]
    slow_down(monkeypatch)
    status, headers, content = slowly(
        path,
        b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n' + b"x" * 50,
        ("authorization", f"Bearer {key}"),
        ("content-type", content_type),
        ("x-request-id", "slow-1"),
        chunked=chunked,
    )
    assert (status, code(json.loads(content))) == (408, "body_too_slow")
    assert headers["x-request-id"] == "slow-1"


@pytest.mark.parametrize("chunked", [False, True])
def test_a_form_that_stalls_gets_a_page(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, chunked: bool
) -> None:
    slow_down(monkeypatch)
    status, headers, content = slowly(
        "/login/",
        b"login=somebody&password=" + b"x" * 50,
        ("cookie", f"{settings.CSRF_COOKIE_NAME}={'x' * 32}"),
        ("content-type", "application/x-www-form-urlencoded"),
        chunked=chunked,
    )
    assert (status, headers["content-type"]) == (408, "text/html; charset=utf-8")
    assert b"Request timed out" in content
