"""Infer requests on the event loop, and those that are handed on."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from typing import Any

import httpx
import pytest
from pytest_django import Settings
from redis import Redis

from hmi_site.direct.application import Direct
from hmi_site.http import request_body
from inference.api import infer, prepared_request
from inference.api.admission import close_gateway
from inference.api.submitter import Submission, close_submitter
from inference.queueing.transport import RequestQueue
from tenants.base.ttl_cache import process_cache
from tenants.usage.services.usage import usage_flush
from tests.integration.inference.api.conftest import WEB_CAPACITY, Served, root_of
from tests.integration.inference.queueing.requests import a_request, depth
from tests.processes import InferenceWorker
from tests.rounding import up_to_rounding

TEXT = "a good stone"
BODY = {"model": "mood", "inputs": [TEXT]}
NOT_DIRECT = {"Accept": "application/json, text/plain"}
OWN = {"date", "x-request-id", "content-length"}
"""Headers that differ from answer to answer."""
CHANGES = re.compile("ratelimit-re|server-timing")
"""Those whose values do."""

Headers = list[tuple[bytes, bytes]]


class Loop:
    """The application on an event loop of its own; ``handed_on`` has the body of each request that it did not
    answer."""

    def __init__(self, key: str) -> None:
        self.handed_on: list[bytes] = []
        self._key = key

    def ask(self, *bodies: object, **scope: Any) -> list[tuple[int, Any]]:
        """Status and JSON value for each of the bodies, which are sent at the same time."""
        with ThreadPoolExecutor(2) as threads:
            return asyncio.run(self._all(Direct(self._others, threads=threads), bodies, scope))

    async def _all(self, direct: Direct, bodies: Any, scope: dict[str, Any]) -> list[tuple[int, Any]]:
        return await asyncio.gather(*(self._one(direct, body, scope) for body in bodies))

    async def _one(self, direct: Direct, body: object, scope: dict[str, Any]) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        half, sent = len(content) // 2, []
        waiting = [(content[:half], True), (content[half:], False)]

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.Event().wait()
            piece, more = waiting.pop(0)
            return {"type": "http.request", "body": piece, "more_body": more}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await direct({**self.scope(content), **scope}, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"] or "null")

    def scope(self, content: bytes, *more: tuple[bytes, bytes]) -> dict[str, Any]:
        headers = [(b"host", b"localhost"), (b"content-length", str(len(content)).encode())]
        key = (b"authorization", f"Bearer {self._key}".encode())
        kind = {"type": "http", "method": "POST", "path": "/api/v1/infer", "query_string": b""}
        return {**kind, "headers": [*headers, key, *more]}

    async def _others(self, scope: Any, receive: Any, send: Any) -> None:
        body = scope.get(request_body.BODY) or await request_body.receive_body(scope, receive)
        self.handed_on.append(body.content)
        await send({"type": "http.response.start", "status": 599, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def loop(db: None, served: Served, settings: Settings) -> Iterator[Loop]:
    settings.HMI_USAGE_INTERVAL_S = settings.HMI_KEY_CACHE_S = settings.HMI_MODEL_CACHE_S = 60.0
    process_cache().clear()
    yield Loop(served.key)
    close_submitter()
    usage_flush()
    process_cache().clear()


@pytest.mark.usefixtures("worker")
def test_many_calls_at_once_have_their_own_answers(loop: Loop) -> None:
    assert loop.ask(BODY)[0][0] == 200
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
    assert loop.handed_on == []


@pytest.mark.usefixtures("worker")
def test_the_database_is_asked_once_a_moment(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop.ask(BODY)[0][0] == 200
    monkeypatch.setattr("hmi_site.direct.application._look_up", None)
    assert [status for status, _ in loop.ask(BODY, BODY, BODY)] == [200] * 3
    process_cache().clear()
    assert loop.ask(BODY) == [(599, None)]  # whatever went wrong, the view says what


@pytest.mark.usefixtures("worker")
def test_long_texts_are_tokenised_and_answered_beside_the_event_loop(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"model": "mood", "inputs": ["a " * 150] * 80}
    assert loop.ask(BODY)[0][0] == 200
    on_loop, threads = get_ident(), set[int]()
    encode, answer_of = prepared_request.encode, infer.answer_of

    def noted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            threads.add(get_ident())
            return real(*given)

        return call

    monkeypatch.setattr("inference.api.prepared_request.encode", noted(encode))
    monkeypatch.setattr("inference.api.infer.answer_of", noted(answer_of))
    [(status, answer)] = loop.ask(body)
    assert (status, len(answer["results"]), loop.handed_on) == (200, 80, [])
    assert threads
    assert on_loop not in threads
    threads.clear()
    assert loop.ask(BODY)[0][0] == 200
    assert threads == {on_loop}


@pytest.mark.parametrize(
    "scope",
    [
        {"method": "GET"},
        {"path": "/api/v1/infer/"},
        {"query_string": b"tenant=acme"},
    ],
)
def test_another_request_is_handed_on_as_it_came(loop: Loop, scope: dict[str, Any]) -> None:
    assert loop.ask(BODY, **scope) == [(599, None)]
    assert [json.loads(body) for body in loop.handed_on] == [BODY]


@pytest.mark.parametrize(
    "change",
    [
        lambda headers: [*headers, (b"idempotency-key", b"one")],
        lambda headers: [*headers, (b"accept", b"text/html")],
        lambda headers: [*headers, (b"content-encoding", b"gzip")],
        lambda headers: [*headers, (b"transfer-encoding", b"chunked")],
        lambda headers: [*headers, (b"host", b"localhost")],
        lambda headers: [(b"host", b"elsewhere.example"), *headers[1:]],
        lambda headers: [*headers[:2], (b"authorization", b"Basic abc")],
        lambda headers: [*headers[:2], (b"authorization", b"Bearer abcdefgh." + b"x" * 32)],
        lambda headers: [headers[0], (b"content-length", b"9999999"), headers[2]],
    ],
)
def test_headers_that_need_the_view_lead_there(loop: Loop, change: Callable[[Headers], Headers]) -> None:
    headers = change(loop.scope(json.dumps(BODY).encode())["headers"])
    assert loop.ask(BODY, headers=headers) == [(599, None)]
    # What is too large, or of unclear length, is not read.
    assert loop.handed_on in ([json.dumps(BODY).encode()], [b""])


@pytest.mark.usefixtures("worker")
def test_a_name_that_is_none_is_replaced(loop: Loop) -> None:
    headers = [*loop.scope(json.dumps(BODY).encode())["headers"], (b"x-request-id", b"not an id!")]
    [(status, answer)] = loop.ask(BODY, headers=headers)
    assert (status, len(answer["id"]), loop.handed_on) == (200, 32, [])


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("seconds", [9.54e-07, 0.0004])
def test_a_deadline_of_next_to_nothing_is_told_without_an_exponent(loop: Loop, seconds: float) -> None:
    [(status, answer)] = loop.ask({**BODY, "timeout_s": seconds})
    assert status == 504
    assert "less than 0.001 s" in answer["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        {"model": "mood"},
        {"model": "nobody", "inputs": [TEXT]},
        {"model": "unborn", "inputs": [TEXT]},
        {"model": "mood", "inputs": [""]},
        {"model": "mood", "inputs": [TEXT], "quality": "best"},
        {"model": "mood", "inputs": [TEXT], "quality": "fast", "target": 0.9},
    ],
)
def test_the_view_says_what_is_wrong_with_a_call(loop: Loop, body: object) -> None:
    assert loop.ask(body) == [(599, None)]
    assert loop.handed_on == [body if isinstance(body, bytes) else json.dumps(body).encode()]


def test_where_staff_need_a_second_factor_the_view_looks_at_sessions(loop: Loop, settings: Settings) -> None:
    settings.HMI_STAFF_TOTP = True
    headers = loop.scope(json.dumps(BODY).encode(), (b"cookie", b"sessionid=x"))["headers"]
    assert loop.ask(BODY, headers=headers) == [(599, None)]


def test_where_each_request_is_written_down_at_once_the_view_does_it(loop: Loop, settings: Settings) -> None:
    settings.HMI_USAGE_INTERVAL_S = 0.0
    assert loop.ask(BODY) == [(599, None)]


def test_without_a_queue_there_is_no_answer_and_all_hear_it_soon(
    loop: Loop, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmi_site.direct.application.MOST_LOOK_UPS", 20)
    close_gateway()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    try:
        answers = loop.ask(*[BODY] * 20)
    finally:
        close_submitter()
        close_gateway()
    assert {(status, answer["error"]["code"]) for status, answer in answers} == {(503, "worker_unavailable")}


@pytest.mark.usefixtures("worker")
def test_where_many_look_ups_wait_the_view_is_asked(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmi_site.direct.application.MOST_LOOK_UPS", 1)
    statuses = [status for status, _ in loop.ask(BODY, BODY, BODY)]
    assert sorted(statuses) == [200, 599, 599]


@pytest.mark.usefixtures("worker")
def test_what_nobody_foresaw_is_in_the_log_and_answered(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("inference.api.infer.answer_of", None)
    [(status, answer)] = loop.ask(BODY)
    assert (status, answer["error"]["code"]) == (500, "internal")
    assert "TypeError" in caplog.text


def test_who_has_gone_before_the_workers_had_the_request_has_cancelled_it(
    loop: Loop, busy: InferenceWorker, redis_url: str
) -> None:
    class Gone(Submission):
        def accept(self) -> None:
            self.hang_up()  # it cannot be found yet
            super().accept()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inference.api.submitter.Submission", Gone)
        [(status, answer)] = loop.ask(BODY)
    assert (status, answer["error"]["code"]) == (409, "cancelled")
    with Redis.from_url(redis_url) as client:
        assert depth(client) == 0


def test_who_has_gone_before_that_is_not_submitted(loop: Loop, busy: InferenceWorker, redis_url: str) -> None:
    class Gone(Submission):
        is_wanted = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inference.api.submitter.Submission", Gone)
        [(status, answer)] = loop.ask(BODY)
    assert (status, answer["error"]["code"]) == (409, "cancelled")
    with Redis.from_url(redis_url) as client:
        assert depth(client) == 0


def test_answers_are_those_of_the_view(web: str, worker: InferenceWorker, served: Served) -> None:
    with httpx.Client(base_url=web, trust_env=False, timeout=20) as client:

        def ask(**headers: str) -> httpx.Response:
            key = {"Authorization": f"Bearer {served.key}"}
            return client.post("/api/v1/infer", json=BODY, headers=key | headers)

        first = ask(**NOT_DIRECT)
        direct, view = ask(), ask(**NOT_DIRECT)
        assert [answer.status_code for answer in (first, direct, view)] == [200] * 3
        assert _told(direct) == _told(view)
        assert direct.json().keys() == view.json().keys()
        assert direct.json()["results"] == up_to_rounding(view.json()["results"])
        assert direct.headers["x-hmi-model"] == "acme/mood:1"
        left = [int(answer.headers["x-ratelimit-remaining-requests"]) for answer in (first, direct, view)]
        assert left[0] >= left[1] >= left[2]


@pytest.mark.parametrize("web", [{"HMI_STAFF_TOTP": "true"}], indirect=True)
def test_refusals_are_those_of_the_view(
    web: str, busy: InferenceWorker, served: Served, queue: Redis
) -> None:
    waiting = RequestQueue(queue, capacity=WEB_CAPACITY)
    with httpx.Client(base_url=web, trust_env=False, timeout=30) as client:

        def ask(seconds: float, **headers: str) -> httpx.Response:
            key = {"Authorization": f"Bearer {served.key}"}
            own = key | {"X-Timeout-S": str(seconds), "X-Request-Id": "own"}
            answer = client.post("/api/v1/infer", json=BODY, headers=own | headers)
            waiting.cancel("acme", "own")  # or the next would be told that it waits for this one
            return answer

        late = [ask(0.2), ask(0.2, **NOT_DIRECT)]
        for serial in range(WEB_CAPACITY // 2):
            waiting.submit(a_request(f"r{serial}", root=root_of(served)))
        full = [ask(20), ask(20, **NOT_DIRECT)]
    for direct, view in (late, full):
        assert _told(direct) == _told(view)
        assert direct.json().keys() == view.json().keys()
        assert direct.json()["error"]["code"] == view.json()["error"]["code"]
    assert [answer.status_code for answer in (*late, *full)] == [504, 504, 429, 429]


def _told(answer: httpx.Response) -> dict[str, str]:
    """Its headers, but for what may have changed since."""
    told = answer.headers.items()
    return {name: "" if CHANGES.search(name) else value for name, value in told if name not in OWN}
