"""What the client sends again, and what it tells the caller, against a server that is told what to say."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from hmi_client import ApiError, AsyncClient, Client, HmiError, Retries
from hmi_client.errors import (
    AuthenticationFailed,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    ServerError,
    TimedOut,
    Unavailable,
)
from hmi_client.responses import Answer, AnsweredBy
from hmi_client.retries import retry_after
from tests.integration.hmi_client.scripted import Reply, Script, refusal

ANSWER = {
    "id": "1",
    "model": {"name": "acme/mood", "version": 3, "digest": "d" * 64},
    "results": [{"label": "good", "scores": {"good": 1.0}}],
    "usage": {"inputs": 1},
    "news": "of a later server",
}
NOW = Retries(max_retries=2, initial_delay_s=0.0, max_delay_s=5.0)
Ask = Callable[[], Answer]


@pytest.fixture(params=["blocking", "asynchronous"])
def ask(request: pytest.FixtureRequest, script: Script) -> Ask:
    """Asks a model, with either client."""

    def block() -> Answer:
        with Client(script.url, "secret", retries=NOW) as client:
            return client.infer("mood", ["fine"])

    async def wait() -> Answer:
        async with AsyncClient(script.url, "secret", retries=NOW) as client:
            return await client.infer("mood", ["fine"])

    return block if request.param == "blocking" else lambda: asyncio.run(wait())


def test_an_answer_is_read_and_what_is_new_in_it_is_left_out(ask: Ask, script: Script) -> None:
    script.replies = [Reply(200, ANSWER)]
    answer = ask()
    assert answer.model == AnsweredBy("acme/mood", 3, "d" * 64)
    assert answer.results == (ANSWER["results"][0],)  # type: ignore[index]
    [asked] = script.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/infer")
    assert asked.body == {"model": "mood", "inputs": ["fine"]}
    assert asked.headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "passing",
    [
        refusal(429, "queue_full", "limit", Retry_After="0"),
        refusal(409, "in_flight", "conflict", Retry_After="0"),
        refusal(503, "worker_unavailable", "unavailable"),
        refusal(500, "internal", "server", x_should_retry="true"),
        Reply(502),
        Reply(hangs_up=True),
    ],
    ids=["full", "in flight", "no worker", "told to", "a proxy", "hung up"],
)
def test_what_passes_is_asked_again_with_the_same_idempotency_key(
    ask: Ask, script: Script, passing: Reply
) -> None:
    script.replies = [passing, passing, Reply(200, ANSWER)]
    assert ask().results[0]["label"] == "good"
    keys = {asked.headers["Idempotency-Key"] for asked in script.asked}
    assert (len(script.asked), len(keys)) == (3, 1)
    assert keys != {""}


@pytest.mark.parametrize(
    ("lasting", "kind"),
    [
        (refusal(401, "unauthenticated", "authentication"), AuthenticationFailed),
        (refusal(403, "forbidden", "permission"), PermissionDenied),
        (refusal(404, "not_found", "not_found"), NotFound),
        (refusal(409, "model_not_ready", "conflict"), Conflict),
        (refusal(422, "empty_text", "invalid_request"), InvalidRequest),
        (refusal(429, "quota_exceeded", "limit"), LimitExceeded),
        (refusal(429, "rate_limited", "limit", Retry_After="6"), LimitExceeded),
        (refusal(503, "worker_unavailable", "unavailable", x_should_retry="false"), Unavailable),
        (refusal(409, "conflict", "conflict", Retry_After="0", x_should_retry="false"), Conflict),
        (refusal(500, "internal", "server"), ServerError),
        (refusal(504, "deadline_exceeded", "timeout"), TimedOut),
        (refusal(422, "odd", "a_type_of_tomorrow"), InvalidRequest),
    ],
    ids=lambda value: value.body["error"]["code"] if isinstance(value, Reply) else "",
)
def test_what_lasts_is_told_at_once_by_its_kind(
    ask: Ask, script: Script, lasting: Reply, kind: type[ApiError]
) -> None:
    script.replies = [replace(lasting, headers={**lasting.headers, "X-Request-Id": "job-7"})]
    with pytest.raises(ApiError) as caught:
        ask()
    assert type(caught.value) is kind
    assert caught.value.to_json() == lasting.body
    assert (caught.value.status, caught.value.request_id) == (lasting.status, "job-7")
    assert len(script.asked) == 1


def test_after_the_last_attempt_the_last_error_is_told(ask: Ask, script: Script) -> None:
    script.replies = [refusal(503, "worker_unavailable", "unavailable", Retry_After="0")] * 3
    with pytest.raises(Unavailable) as caught:
        ask()
    assert caught.value.retry_after == 0
    assert script.replies == []


def test_a_page_of_a_proxy_is_an_error_like_others(ask: Ask, script: Script) -> None:
    script.replies = [Reply(413, "Request Entity Too Large")]
    with pytest.raises(InvalidRequest) as caught:
        ask()
    assert (caught.value.code, caught.value.status) == ("http_413", 413)


def test_a_server_that_is_not_there_is_said_to_be_so(ask: Ask, script: Script) -> None:
    script.url = "http://127.0.0.1:9"
    with pytest.raises(ConnectionFailed):
        Client(script.url, "secret", retries=NOW).whoami()


def test_retry_after_may_be_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    found = [retry_after(httpx.Response(503, headers={"Retry-After": value})) for value in (soon, past, "x")]
    assert found[0] is not None
    assert 0 < found[0] <= 30
    assert found[1:] == [0.0, None]
    assert retry_after(httpx.Response(503)) is None


def page(names: list[str], following: str | None) -> Reply:
    """A page of models."""
    results: list[dict[str, Any]] = [{"name": name, "tenant": "acme", "task": "tagging"} for name in names]
    return Reply(200, {"next": following, "previous": None, "results": results})


def test_a_list_is_read_page_by_page_however_the_next_one_is_marked(script: Script) -> None:
    pages = [page(["a", "b"], f"{script.url}/api/v1/models?cursor=b%2B1&limit=2"), page(["c"], None)]

    script.replies = list(pages)
    with Client(script.url, "secret") as client:
        assert [model.name for model in client.list_models()] == ["a", "b", "c"]
    assert [asked.path for asked in script.asked] == ["/api/v1/models", "/api/v1/models?cursor=b%2B1&limit=2"]
    script.replies = list(pages)
    with Client(script.url, "secret") as client:
        models = client.list_models()
        assert next(models).name == "a"
        assert len(script.asked) == 3  # what nobody iterates to is not asked for
        assert [model.name for model in models] == ["b", "c"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?x=1", "a#b", "a%2fb"])
def test_a_name_cannot_reach_elsewhere(script: Script, name: str) -> None:
    with Client(script.url, "secret") as client, pytest.raises(HmiError):
        client.get_model(name)
    assert script.asked == []
