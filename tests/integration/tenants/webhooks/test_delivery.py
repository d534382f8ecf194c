"""Delivery of webhooks: signatures, retries, leases, and refused targets."""

import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings
from standardwebhooks import Webhook, WebhookVerificationError

from tenants.accounts.services.tenants import tenant_suspend
from tenants.audit.models import AuditEvent
from tenants.webhooks.http_client import _ssl_context
from tenants.webhooks.models import DeliveryState, EventKind, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.delivery import (
    LEASE,
    RETRY_DELAYS_S,
    deliveries_expire,
    delivery_attempt,
    delivery_claim,
    delivery_record,
    webhooks_send,
)
from tenants.webhooks.services.endpoints import webhook_create, webhook_rotate, webhook_update
from tenants.webhooks.services.events import delivery_replay, event_create, webhook_test
from tests.integration.tenants.webhooks.receiver import Received, Receiver, certificate, receiving
from tests.integration.world import World

A_LOT_S = 60.0


def endpoint_at(world: World, url: str) -> tuple[WebhookEndpoint, str]:
    return webhook_create(tenant=world.tenant, url=url, kinds=["job.failed"], actor=world.owner)


def send_test(endpoint: WebhookEndpoint, world: World) -> WebhookDelivery:
    return webhook_test(endpoint=endpoint, actor=world.owner)


def send_event(endpoint: WebhookEndpoint) -> WebhookDelivery:
    event_create(endpoints=[endpoint], kind=EventKind.JOB_FAILED, data={})
    return WebhookDelivery.unscoped.filter(endpoint=endpoint).latest("created_at")


def again(row: WebhookDelivery) -> WebhookDelivery:
    return WebhookDelivery.unscoped.select_related("endpoint").get(pk=row.pk)


def move(delivery: WebhookDelivery, by: timedelta) -> None:
    """As if this much time had gone by."""
    row = again(delivery)
    WebhookDelivery.unscoped.filter(pk=row.pk).update(
        created_at=row.created_at - by, next_attempt_at=row.next_attempt_at and row.next_attempt_at - by
    )
    endpoint = row.endpoint
    WebhookEndpoint.unscoped.filter(pk=endpoint.pk).update(
        lease_expires_at=endpoint.lease_expires_at and endpoint.lease_expires_at - by,
        previous_until=endpoint.previous_until and endpoint.previous_until - by,
        failing_since=endpoint.failing_since and endpoint.failing_since - by,
    )


def verified(request: Received, secret: str) -> bool:
    try:
        Webhook(secret).verify(request.body, request.headers)
    except WebhookVerificationError:
        return False
    return True


def test_an_event_is_delivered_signed_and_once(world: World, receiver: Receiver) -> None:
    receiver.body = b"thanks \x00\xff" + b"x" * 5000
    endpoint, secret = endpoint_at(world, receiver.url)
    delivery = send_test(endpoint, world)
    assert webhooks_send(max_seconds=A_LOT_S) == 1
    assert webhooks_send(max_seconds=A_LOT_S) == 0
    (request,) = receiver.received
    found = again(delivery)
    told = Webhook(secret).verify(request.body, request.headers)
    assert told == found.payload
    assert (told["type"], told["data"]["tenant"]) == (EventKind.TEST, "acme")
    assert request.headers["webhook-id"] == found.event_id
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert (found.state, found.attempts, found.next_attempt_at) == (DeliveryState.DELIVERED, 1, None)
    assert found.last_attempt is not None
    assert found.last_attempt["status"] == 204
    assert not verified(Received(request.path, request.headers, request.body + b" "), secret)


def test_a_failing_delivery_is_retried_with_growing_delays_until_the_last_attempt(
    world: World, receiver: Receiver
) -> None:
    receiver.status, receiver.body = 500, b"<b>broken\x00</b>" + b"x" * 5000
    endpoint, secret = endpoint_at(world, receiver.url)
    delivery = send_test(endpoint, world)
    for pause in RETRY_DELAYS_S:
        begun = timezone.now()
        assert webhooks_send(max_seconds=A_LOT_S) == 1
        found = again(delivery)
        assert found.state == DeliveryState.WAITING
        assert found.next_attempt_at is not None
        assert found.next_attempt_at >= begun + timedelta(seconds=pause * 0.8)
        assert found.next_attempt_at <= timezone.now() + timedelta(seconds=pause * 1.2)
        move(delivery, found.next_attempt_at - timezone.now())
    assert webhooks_send(max_seconds=A_LOT_S) == 1
    found = again(delivery)
    assert (found.state, found.attempts) == (DeliveryState.FAILED, len(RETRY_DELAYS_S) + 1)
    assert [one["status"] for one in found.attempt_log] == [500] * 10
    assert found.attempt_log[0]["excerpt"].startswith("<b>broken\ufffd</b>xx")
    assert len(found.attempt_log[0]["excerpt"]) == 1024
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
    assert all(verified(request, secret) for request in receiver.received)
    receiver.status = 200
    replayed = delivery_replay(delivery=found, actor=world.owner)
    assert webhooks_send(max_seconds=A_LOT_S) == 1
    assert again(replayed).state == DeliveryState.DELIVERED
    assert receiver.received[-1].headers["webhook-id"] == found.event_id
    assert receiver.received[-1].body == receiver.received[0].body


def test_retry_after_delays_the_next_attempt_and_410_disables_the_endpoint(
    world: World, receiver: Receiver
) -> None:
    receiver.status, receiver.headers = 429, {"retry-after": "3600"}
    endpoint, _ = endpoint_at(world, receiver.url)
    delivery = send_event(endpoint)
    webhooks_send(max_seconds=A_LOT_S)
    wished = again(delivery).next_attempt_at
    assert wished is not None
    assert wished > timezone.now() + timedelta(minutes=50)
    move(delivery, timedelta(hours=1))
    receiver.status = 410
    webhooks_send(max_seconds=A_LOT_S)
    assert again(delivery).state == DeliveryState.FAILED
    assert not again(delivery).endpoint.is_enabled
    assert "410" in again(delivery).endpoint.disabled_reason


def test_a_failed_test_event_does_not_make_an_endpoint_failing(world: World, receiver: Receiver) -> None:
    receiver.status = 500
    endpoint, _ = endpoint_at(world, receiver.url)
    delivery = send_test(endpoint, world)
    webhooks_send(max_seconds=A_LOT_S)
    assert again(delivery).attempts == 1
    assert again(delivery).endpoint.state == "active"


def test_an_endpoint_that_fails_for_days_is_disabled_and_success_resets_that(
    world: World, receiver: Receiver
) -> None:
    endpoint, _ = endpoint_at(world, receiver.url)
    for status in (500, 200, 500):
        receiver.status = status
        delivery = send_event(endpoint)
        webhooks_send(max_seconds=A_LOT_S)
        endpoint.refresh_from_db()
        assert (endpoint.failing_since is None) == (status == 200)
        WebhookEndpoint.unscoped.filter(pk=endpoint.pk).update(failing_since=endpoint.failing_since)
    move(delivery, timedelta(days=5))
    webhooks_send(max_seconds=A_LOT_S)
    endpoint.refresh_from_db()
    assert not endpoint.is_enabled
    assert "5 days" in endpoint.disabled_reason
    assert AuditEvent.objects.for_tenant(world.tenant).filter(verb="webhook.disable").count() == 1
    sent = len(receiver.received)
    waiting = send_test(endpoint, world)
    assert webhooks_send(max_seconds=A_LOT_S) == 0
    assert len(receiver.received) == sent
    receiver.status = 200
    webhook_update(endpoint=endpoint, actor=world.owner, enabled=True)
    webhooks_send(max_seconds=A_LOT_S)
    assert again(waiting).state == DeliveryState.DELIVERED


def test_a_delivery_of_a_dead_worker_is_sent_again_and_a_late_worker_records_nothing(
    world: World, receiver: Receiver
) -> None:
    endpoint, _ = endpoint_at(world, receiver.url)
    delivery, behind = send_test(endpoint, world), send_test(endpoint, world)
    late = delivery_claim()
    assert late is not None
    answer = delivery_attempt(claim=late)
    assert delivery_claim() is None, "one worker at a time"
    assert again(delivery).state == DeliveryState.WAITING
    move(delivery, LEASE + timedelta(seconds=1))
    other = delivery_claim()
    assert other is not None
    assert not delivery_record(claim=late, response=answer), "it holds nothing any more"
    assert delivery_record(claim=other, response=delivery_attempt(claim=other))
    assert webhooks_send(max_seconds=A_LOT_S) == 1
    found = again(delivery)
    assert (found.state, found.attempts, len(found.attempt_log)) == (DeliveryState.DELIVERED, 2, 1)
    ids = [request.headers["webhook-id"] for request in receiver.received]
    assert ids == [found.event_id, found.event_id, again(behind).event_id]


def test_both_secrets_sign_during_the_overlap(world: World, receiver: Receiver) -> None:
    endpoint, old = endpoint_at(world, receiver.url)
    _, new = webhook_rotate(endpoint=endpoint, overlap=timedelta(hours=1), actor=world.owner)
    send_test(endpoint, world)
    webhooks_send(max_seconds=A_LOT_S)
    assert verified(receiver.received[-1], old)
    assert verified(receiver.received[-1], new)
    delivery = send_test(endpoint, world)
    move(delivery, timedelta(hours=1))
    webhooks_send(max_seconds=A_LOT_S)
    assert not verified(receiver.received[-1], old)
    assert verified(receiver.received[-1], new)


def test_redirects_are_not_followed(world: World, receiver: Receiver) -> None:
    with receiving() as inner:
        receiver.status, receiver.headers = 307, {"location": inner.url}
        endpoint, _ = endpoint_at(world, receiver.url)
        delivery = send_test(endpoint, world)
        webhooks_send(max_seconds=A_LOT_S)
        assert inner.received == []
    found = again(delivery).last_attempt
    assert found is not None
    assert (found["status"], "redirect" in found["error"]) == (307, True)


def test_the_checked_address_is_connected_to_whatever_the_name_resolves_to_next(
    world: World, receiver: Receiver, settings: Settings
) -> None:
    """A resolver that changes its answer: first an allowed address, then one that is not."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "10.0.0.7"], ["::ffff:127.0.0.2"], []])

    async def rebinding(host: str, port: int) -> list[str]:
        assert (host, port) == ("hooks.test", receiver.port)
        return next(answers)

    endpoint, _ = endpoint_at(world, f"http://hooks.test:{receiver.port}/hooks")
    found: list[str] = []
    for _ in range(5):
        delivery = send_test(endpoint, world)
        webhooks_send(max_seconds=A_LOT_S, resolve=rebinding)
        last = again(delivery).last_attempt
        assert last is not None
        found.append(last["error"])
    assert found[0] == ""
    assert all("private or reserved" in error for error in found[1:4])
    assert "no address" in found[4]
    assert [request.headers["host"] for request in receiver.received] == [f"hooks.test:{receiver.port}"]


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Receiver, list[str]]]:
    """A receiver with a certificate for `hooks.test`, and the names that it was called by in TLS."""
    cert, key = certificate(tmp_path, "hooks.test")
    context, names = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), list[str]()
    context.load_cert_chain(cert, key)
    context.set_servername_callback(lambda _socket, name, _context: names.append(str(name)))
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    _ssl_context.cache_clear()
    with receiving(context) as receiver:
        yield receiver, names
    _ssl_context.cache_clear()


def test_tls_verifies_the_host_name_of_a_pinned_address(
    world: World, receiver: Receiver, secure: tuple[Receiver, list[str]]
) -> None:
    target, names = secure

    async def there(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    for name in ("hooks.test", "other.test"):
        endpoint, _ = endpoint_at(world, f"https://{name}:{target.port}/")
        send_test(endpoint, world)
    webhooks_send(max_seconds=A_LOT_S, resolve=there)
    assert set(names) == {"hooks.test", "other.test"}
    assert [request.headers["host"] for request in target.received] == [f"hooks.test:{target.port}"]
    errors = [again(row).attempt_log[0]["error"] for row in WebhookDelivery.unscoped.order_by("created_at")]
    assert errors[0] == ""
    assert "certificate" in errors[1]


def test_a_suspended_tenant_is_not_sent_to_and_old_deliveries_are_deleted(
    world: World, receiver: Receiver
) -> None:
    endpoint, _ = endpoint_at(world, receiver.url)
    delivery, young = send_test(endpoint, world), send_test(endpoint, world)
    tenant_suspend(tenant=world.tenant, actor=world.staff)
    assert webhooks_send(max_seconds=A_LOT_S) == 0
    move(delivery, timedelta(days=31))
    assert deliveries_expire() == 1
    assert list(WebhookDelivery.unscoped.all()) == [young]
