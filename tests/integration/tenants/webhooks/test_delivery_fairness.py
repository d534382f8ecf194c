"""Fairness among tenants with slow receivers or long queues, and timeouts of attempts."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from tenants.accounts.models import Tenant
from tenants.webhooks import http_client
from tenants.webhooks.http_client import WebhookResponse, post
from tenants.webhooks.models import DeliveryState, EventKind, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services import delivery
from tenants.webhooks.services import events as webhook_events
from tenants.webhooks.services.delivery import (
    MAX_CONCURRENT_ENDPOINTS,
    DeliveryClaim,
    delivery_claim,
    delivery_record,
    webhooks_send,
)
from tenants.webhooks.services.endpoints import webhook_create
from tenants.webhooks.services.events import event_create, subscribed_endpoints, webhook_test
from tenants.webhooks.tasks import MAX_SENDERS, send_webhooks
from tests.integration.tenants.webhooks.receiver import Receiver, held_by, receiving
from tests.integration.world import World, make_world
from tests.processes import wait_until

THREADS = 10
"""As many as the worker has (`hmi_site.launcher.children.SHORT_CONCURRENCY`)."""
TAKEN = WebhookResponse(204, "", "", 1)
API = "/api/v1/tenants/acme/webhooks"


@pytest.fixture
def committed(transactional_db: None, redis_url: str) -> World:
    """The small world, as other threads see it."""
    return make_world()


def endpoints(world: World, tenant: Tenant, url: str, count: int) -> list[WebhookEndpoint]:
    """So many, each with something to be sent."""
    made = []
    for _ in range(count):
        one, _secret = webhook_create(tenant=tenant, url=url, kinds=["job.failed"], actor=world.owner)
        webhook_test(endpoint=one, actor=world.owner)
        made.append(one)
    return made


def in_threads(act: Any) -> list[Any]:
    """What each of as many threads as the worker has came to, begun together."""
    begin = threading.Barrier(THREADS)

    def run(_: int) -> Any:
        begin.wait()
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(run, range(THREADS)))


def test_slow_receivers_of_one_tenant_do_not_delay_another_tenant(
    committed: World, receiver: Receiver
) -> None:
    released = threading.Event()
    with receiving() as slow:
        slow.first = lambda: released.wait(60)
        endpoints(committed, committed.tenant, slow.url, 2 * THREADS)
        (quick,) = endpoints(committed, committed.other, receiver.url, 1)
        sending = threading.Thread(target=in_threads, args=[lambda: webhooks_send(max_seconds=60)])
        sending.start()
        try:
            wait_until(lambda: _state(quick) == DeliveryState.DELIVERED and slow.received)
            assert held_by(committed.tenant) <= MAX_CONCURRENT_ENDPOINTS
        finally:
            released.set()
            sending.join()
    assert not WebhookDelivery.unscoped.filter(state=DeliveryState.WAITING, attempts=0).exists()


def _state(endpoint: WebhookEndpoint) -> str:
    return WebhookDelivery.unscoped.get(endpoint=endpoint).state


def test_slow_receivers_of_many_tenants_leave_threads_for_other_tasks(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_CONCURRENT_ENDPOINTS", THREADS)  # as if each endpoint had its tenant
    released, returned = threading.Event(), list[int]()

    def send() -> None:
        send_webhooks()
        returned.append(1)

    with receiving() as slow:
        slow.first = lambda: released.wait(60)
        endpoints(committed, committed.tenant, slow.url, THREADS)
        sending = threading.Thread(target=in_threads, args=[send])
        sending.start()
        try:
            wait_until(lambda: len(returned) == THREADS - MAX_SENDERS)
            assert len(slow.received) <= MAX_SENDERS
        finally:
            released.set()
            sending.join()
    assert not WebhookDelivery.unscoped.filter(state=DeliveryState.WAITING).exists()


def test_concurrent_claims_keep_the_limit_of_each_tenant(committed: World) -> None:
    endpoints(committed, committed.tenant, "https://example.org/", THREADS)
    endpoints(committed, committed.other, "https://example.org/", THREADS)
    for _ in range(5):
        claims = [claim for claim in in_threads(delivery_claim) if claim is not None]
        taken = Counter(claim.delivery.tenant.slug for claim in claims)
        assert taken == {"acme": MAX_CONCURRENT_ENDPOINTS, "globex": MAX_CONCURRENT_ENDPOINTS}
        assert len({claim.delivery.endpoint_id for claim in claims}) == 2 * MAX_CONCURRENT_ENDPOINTS
        assert delivery_claim() is None, "both tenants have theirs"
        WebhookEndpoint.unscoped.update(lease_expires_at=None)


def test_an_endpoint_holds_its_lease_until_the_attempt_is_recorded(world: World) -> None:
    endpoints(world, world.tenant, "https://example.org/", 3)
    claims = [delivery_claim() for _ in range(3)]
    assert [claim is None for claim in claims] == [False, False, True]
    held = claims[0]
    assert held is not None
    client = world.client(world.developer)
    refused = client.delete(f"{API}/{held.delivery.endpoint_id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert int(refused["Retry-After"]) == http_client.REQUEST_TIMEOUT_S
    assert delivery_claim() is None
    assert delivery_record(claim=held, response=TAKEN)
    assert client.delete(f"{API}/{held.delivery.endpoint_id}").status_code == 204
    assert delivery_claim() is not None


def test_the_tenant_served_longest_ago_is_served_next(world: World) -> None:
    endpoints(world, world.tenant, "https://example.org/", 6)
    endpoints(world, world.other, "https://example.org/", 2)
    served = [_served() for _ in range(6)]
    assert served == ["acme", "globex", "acme", "globex", "acme", "acme"]
    (first,) = endpoints(world, world.other, "https://example.org/", 1)
    assert _served() == "globex", "it waits behind nobody's queue"
    assert _state(first) == DeliveryState.DELIVERED


def _served() -> str:
    claim: DeliveryClaim | None = delivery_claim()
    assert claim is not None
    assert delivery_record(claim=claim, response=TAKEN)
    return claim.delivery.tenant.slug


def test_replays_and_tests_beyond_the_waiting_limit_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_events, "MAX_WAITING_DELIVERIES", 3)
    full, other = endpoints(world, world.tenant, "https://example.org/", 2)
    client = world.client(world.developer)
    delivery = WebhookDelivery.unscoped.get(endpoint=full)
    replay, test = f"{API}/{full.pk}/deliveries/{delivery.pk}/replay", f"{API}/{full.pk}/test"
    assert [client.post(address).status_code for address in (replay, test)] == [201, 201]
    for address in (replay, test):
        refused = client.post(address)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
        assert refused.json()["error"]["details"] == {"quota": "waiting deliveries", "limit": 3, "used": 3}
    assert WebhookDelivery.unscoped.filter(endpoint=full).count() == 3
    assert client.post(f"{API}/{other.pk}/test").status_code == 201, "each endpoint has its own queue"
    _served()
    assert client.post(replay).status_code == 201, "there is room again"


def test_an_event_beyond_the_waiting_limit_is_logged_as_not_sent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_events, "MAX_WAITING_DELIVERIES", 1)
    (full,) = endpoints(world, world.tenant, "https://example.org/", 1)
    room, _secret = webhook_create(
        tenant=world.tenant, url="https://example.org/", kinds=["job.failed"], actor=world.owner
    )
    with transaction.atomic():
        found = subscribed_endpoints(world.tenant.pk, EventKind.JOB_FAILED)
        event_create(endpoints=found, kind=EventKind.JOB_FAILED, data={"job": "1"})
    assert _state(room) == DeliveryState.WAITING
    client = world.client(world.developer)
    log = client.get(f"{API}/{full.pk}/deliveries").json()["results"]
    assert [(one["kind"], one["state"], one["attempts"]) for one in log] == [
        ("job.failed", "failed", 0),
        ("webhook.test", "waiting", 0),
    ]
    assert "Not sent" in log[0]["attempt_log"][0]["error"]
    _served()
    _served()
    again = client.post(f"{API}/{full.pk}/deliveries/{log[0]['id']}/replay")
    assert (again.status_code, again.json()["event_id"]) == (201, log[0]["event_id"])


@contextmanager
def dripping(first: bytes, then: bytes) -> Iterator[str]:
    """The address of a receiver that answers with this, and then with this again and again."""
    over = threading.Event()

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(first)
            while not over.wait(0.02):
                try:
                    connection.sendall(then)
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=[server])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", b"x"),
    ],
    ids=["status", "informational", "headers", "body"],
)
def test_a_slow_response_ends_at_the_request_timeout(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes
) -> None:
    monkeypatch.setattr(http_client, "REQUEST_TIMEOUT_S", 0.5)
    with dripping(first, then) as url:
        answer = post(url, body=b"{}", headers={})
    assert not answer.ok
    assert answer.status is None


def test_a_slow_name_resolution_ends_at_the_request_timeout(
    receiver: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "REQUEST_TIMEOUT_S", 0.2)
    released, answers = threading.Event(), list[WebhookResponse]()

    def hangs(*_: Any, **__: Any) -> list[Any]:
        released.wait(120)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    trying = threading.Thread(
        target=lambda: answers.append(post("http://slow.example/", body=b"", headers={}))
    )
    trying.start()
    try:
        wait_until(lambda: answers)
        assert "No complete response" in answers[0].error
    finally:
        released.set()
        trying.join()


def test_host_names_are_resolved_by_the_system(receiver: Receiver) -> None:
    at = receiver.url.replace("127.0.0.1", "localhost")
    found = post(at, body=b"{}", headers={})
    assert found.ok or "private or reserved" in found.error, "localhost may be ::1 here"
    assert "resolved" in post("http://nobody.invalid/", body=b"", headers={}).error
