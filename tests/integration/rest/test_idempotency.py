"""The header Idempotency-Key where something is made: the same request twice makes one thing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import timedelta
from functools import partial
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.accounts.models import IdempotentResponse
from tenants.accounts.services import idempotency
from tenants.accounts.services.idempotency import RETENTION, idempotent_responses_expire
from tenants.datasets.models import Corpus, Upload
from tenants.usage.services.quotas import quota_lock
from tenants.webhooks.models import WebhookEndpoint
from tests.integration.tenants.content import CORPUS, upload
from tests.integration.versiontree.callers import error
from tests.integration.world import World, make_world

V1 = "/api/v1"
HOOK = {"url": "https://example.org/hook", "kinds": ["job.failed"]}


def post(client: APIClient, where: str, body: Any, key: str, **more: Any) -> Any:
    more.setdefault("format", "json")
    return client.post(f"{V1}/{where}", body, headers={"Idempotency-Key": key}, **more)


def with_key(world: World) -> APIClient:
    return world.client(key=world.key()[1])


def test_repeated_request_has_the_same_secret_stored_encrypted(world: World) -> None:
    client = with_key(world)
    first = post(client, "webhooks", HOOK, "k1")
    again = post(client, "webhooks", dict(reversed(HOOK.items())), "k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first["X-Request-Id"] != again["X-Request-Id"]
    kept = IdempotentResponse.objects.for_tenant(world.tenant).get()
    assert first.json()["secret"] not in kept.encrypted_response
    assert error(post(client, "webhooks", {**HOOK, "description": "b"}, "k1")) == (
        422,
        "invalid_field",
        "Idempotency-Key",
    )
    other_key, other_person = with_key(world), world.client(world.developer)
    made = [post(client, "webhooks", HOOK, "k2"), post(other_key, "webhooks", HOOK, "k1")]
    made.append(post(other_person, "tenants/acme/webhooks", HOOK, "k1"))
    assert len({answer.json()["id"] for answer in [first, *made]}) == 4
    assert WebhookEndpoint.unscoped.count() == 4


def test_files_are_compared_by_their_bytes_and_errors_are_not_kept(world: World) -> None:
    client = with_key(world)

    def send(content: str, name: str = "news") -> Any:
        body = {"name": name, "file": upload("a.txt", content)}
        return post(client, "corpora", body, "k1", format="multipart")

    assert send("").status_code == 422
    assert IdempotentResponse.unscoped.count() == 0
    first, again = send(CORPUS), send(CORPUS)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert send(CORPUS + "more\n").status_code == send(CORPUS, "other").status_code == 422
    assert Corpus.unscoped.count() == 1


def test_uploads_with_other_headers_are_other_requests(world: World) -> None:
    client = with_key(world)

    def begin(size: int) -> Any:
        headers = {"Idempotency-Key": "k1", "Upload-Length": str(size), "Tus-Resumable": "1.0.0"}
        return client.post(f"{V1}/uploads", headers=headers)

    first, again = begin(9), begin(9)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Upload-Offset"] == "0"
    assert error(begin(10))[0] == 422
    assert Upload.unscoped.count() == 1


def test_after_a_day_a_key_is_free_and_of_a_tenant_so_many_are_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = with_key(world)
    first = post(client, "webhooks", HOOK, "k1").json()["id"]
    IdempotentResponse.unscoped.update(created_at=timezone.now() - RETENTION - timedelta(seconds=1))
    second = post(client, "webhooks", {**HOOK, "description": "b"}, "k1").json()["id"]
    assert second != first
    IdempotentResponse.unscoped.update(created_at=timezone.now() - RETENTION)
    assert idempotent_responses_expire() == 1
    monkeypatch.setattr(idempotency, "MAX_RESPONSES_PER_TENANT", 2)
    for key in ("k1", "k2", "k3"):
        post(client, "webhooks", HOOK, key)
    assert IdempotentResponse.unscoped.count() == 2
    assert post(client, "webhooks", HOOK, "k3").headers.get("Idempotency-Replayed") == "true"
    monkeypatch.setattr(idempotency, "MAX_RESPONSE_BYTES", 10)
    post(client, "webhooks", HOOK, "k4")
    assert "Idempotency-Replayed" not in post(client, "webhooks", HOOK, "k4").headers


def at_once(count: int, act: Callable[[], Any]) -> list[Any]:
    """What each of so many threads gets that begin together."""
    start = Barrier(count)

    def run(_: int) -> Any:
        start.wait()
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_concurrent_requests_with_one_key_are_done_once(transactional_db: None, upload_root: Any) -> None:
    world = make_world()
    client = with_key(world)
    for key in ("k1", "k2", "k3"):
        answers = at_once(8, partial(post, client, "webhooks", HOOK, key))
        assert {answer.status_code for answer in answers} <= {201, 409}
        assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
        told = [answer for answer in answers if answer.status_code == 409]
        assert all(error(answer)[1] == "in_flight" and answer["Retry-After"] == "1" for answer in told)
    assert WebhookEndpoint.unscoped.count() == 3


def test_while_the_first_is_under_way_the_second_is_in_flight(
    transactional_db: None, upload_root: Any
) -> None:
    world = make_world()
    client, held, waiting = with_key(world), Event(), Event()

    def send() -> Any:
        try:
            body = {"name": "news", "file": upload("a.txt", CORPUS)}
            return post(client, "corpora", body, "k1", format="multipart")
        finally:
            connection.close()

    def hold() -> None:
        with transaction.atomic():
            quota_lock(tenant=world.tenant)
            held.set()
            waiting.wait()
        connection.close()

    with ThreadPoolExecutor(3) as pool:
        holding = pool.submit(hold)
        held.wait()
        sent = [pool.submit(send), pool.submit(send)]
        try:
            refused = next(as_completed(sent, timeout=30)).result()
        finally:
            waiting.set()
        holding.result()
        answers = sorted((one.result() for one in sent), key=lambda answer: answer.status_code)
    assert error(refused) == (409, "in_flight", "Idempotency-Key")
    assert [answer.status_code for answer in answers] == [201, 409]
    assert send().content == answers[0].content
    assert Corpus.unscoped.count() == 1
