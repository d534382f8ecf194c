"""Infer requests that wait on the event loop of the web server's application, in this process."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from pytest_django import Settings
from redis import Redis
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.throttling import BaseThrottle

from hmi_site.http.body_limits import body_permit
from hmi_site.http.wsgi_threads import ThreadedWsgiApp
from inference.api.admission import close_gateway
from inference.api.submitter import close_submitter
from inference.api.views import InferView
from tenants.accounts.authentication import CachedApiKeyAuthentication
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import process_cache
from tenants.usage.services.usage import usage_flush
from tests.integration.inference.api.conftest import Served
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker, wait_until
from tests.rounding import up_to_rounding

TEXT = "a good stone"
BODY = {"model": "mood", "inputs": [TEXT]}
THREADS = 2

Answer = tuple[int, Any]


class Loop:
    """Sends requests with the key to the application, which has THREADS threads."""

    def __init__(self, key: str) -> None:
        self._key = key

    def ask(self, *bodies: object, meanwhile: Callable[[], object] = lambda: None) -> list[Answer]:
        """Status and JSON value for each of the bodies, sent at the same time. ``meanwhile`` runs in a
        thread."""

        async def ask_all() -> list[Answer]:
            application = ThreadedWsgiApp(WSGIHandler(), body_permit=body_permit, threads=THREADS)
            answers = asyncio.gather(*(self._one(application, body) for body in bodies))
            await asyncio.gather(answers, asyncio.to_thread(meanwhile))
            return await answers

        return asyncio.run(ask_all())

    async def _one(self, application: ThreadedWsgiApp, body: object) -> Answer:
        content = json.dumps(body).encode()
        sent: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.Event().wait()
            return waiting.pop()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = {"host": "localhost", "content-length": str(len(content))}
        headers["authorization"] = f"Bearer {self._key}"
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "raw_path": b"/api/v1/infer",
            "query_string": b"",
            "server": ("127.0.0.1", "8000"),
            "client": ("127.0.0.1", "1234"),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        await application(scope, receive, send)
        return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


@pytest.fixture
def loop(db: None, served: Served, settings: Settings) -> Iterator[Loop]:
    settings.HMI_USAGE_INTERVAL_S = settings.HMI_KEY_CACHE_S = settings.HMI_MODEL_CACHE_S = 60.0
    process_cache().clear()
    yield Loop(served.key)
    close_submitter()
    usage_flush()
    process_cache().clear()


@pytest.mark.usefixtures("worker")
def test_requests_sent_at_once_get_their_own_answers(loop: Loop) -> None:
    texts = [f"{TEXT} {'and more ' * number}" for number in range(12)]
    given = [[text] * (1 + at % 2) for at, text in enumerate(texts)]
    answers = loop.ask(*({"model": "mood", "inputs": inputs} for inputs in given))
    assert [status for status, _ in answers] == [200] * 12
    assert [len(answer["results"]) for _, answer in answers] == [1, 2] * 6
    alone = [loop.ask({"model": "mood", "inputs": [text]})[0][1] for text in texts]
    for (_, together), by_itself in zip(answers, alone, strict=True):
        scores = [one["results"][0]["scores"] for one in (together, by_itself)]
        assert scores[0] == up_to_rounding(scores[1])
    assert len({answer["id"] for _, answer in answers}) == 12


def test_waiting_requests_hold_no_thread(loop: Loop, busy: InferenceWorker, queue: Redis) -> None:
    def resume_when_all_wait() -> None:
        wait_until(lambda: depth(queue) == 20 * THREADS)
        busy.resume()

    answers = loop.ask(*[BODY] * 20 * THREADS, meanwhile=resume_when_all_wait)
    assert {status for status, _ in answers} == {200}


class NoKey(BaseAuthentication):
    """Refuses all keys."""

    def authenticate(self, request: Any) -> Any:
        raise HmiError(ErrorCode.UNAUTHENTICATED, "replaced")


class NoPermission(BasePermission):
    """Permits nobody."""

    def has_permission(self, request: Any, view: Any) -> bool:
        raise HmiError(ErrorCode.FORBIDDEN, "replaced")


class NoRequest(BaseThrottle):
    """Allows no request."""

    def allow_request(self, request: Any, view: Any) -> bool:
        raise HmiError(ErrorCode.RATE_LIMITED, "replaced")


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("attribute", "replacements", "status"),
    [
        ("authentication_classes", (NoKey, CachedApiKeyAuthentication), 401),
        ("permission_classes", (NoPermission,), 403),
        ("throttle_classes", (NoRequest,), 429),
    ],
)
def test_replaced_check_of_the_view_refuses_each_request(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, attribute: str, replacements: tuple[type, ...], status: int
) -> None:
    assert loop.ask(BODY)[0][0] == 200  # key, model and limits are cached
    monkeypatch.setattr(InferView, attribute, replacements)
    for _ in range(2):
        [(refused, answer)] = loop.ask(BODY)
        assert (refused, answer["error"]["message"]) == (status, "replaced")


def test_unreachable_queue_is_worker_unavailable(loop: Loop, settings: Settings) -> None:
    close_gateway()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    try:
        answers = loop.ask(*[BODY] * 20)
    finally:
        close_submitter()
        close_gateway()
    assert {(status, answer["error"]["code"]) for status, answer in answers} == {(503, "worker_unavailable")}


@pytest.mark.usefixtures("worker")
def test_unexpected_error_after_the_reply_is_logged_and_answered(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("inference.api.infer.answer_of", None)
    [(status, answer)] = loop.ask(BODY)
    assert (status, answer["error"]["code"]) == (500, "internal")
    assert "TypeError" in caplog.text
