"""Webhook events: a transactional outbox. Deliveries are written in the transaction of their event.

So an event that is rolled back is never sent, and one that is committed is sent even if a process dies.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor
from tenants.base.dispatch import SHORT_QUEUE, dispatch
from tenants.base.errors import ErrorCode, HmiError
from tenants.webhooks.models import DeliveryState, EventKind, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.endpoints import webhook_audit, webhook_lock

SEND_WEBHOOKS_TASK: Final = "webhooks.send"
MAX_WAITING_DELIVERIES: Final = 1_000
"""Per endpoint: a receiver that is down for long must not fill the database."""


def subscribed_endpoints(tenant_id: int, kind: EventKind) -> list[WebhookEndpoint]:
    """The enabled endpoints of the tenant for this kind of event, locked against deletion.

    A deletion waits until this transaction ends, and then also deletes the new deliveries.
    """
    subscribed = WebhookEndpoint.unscoped.filter(
        tenant_id=tenant_id, disabled_at=None, kinds__contains=[kind]
    )
    statement, values = subscribed.query.sql_with_params()
    # Django's select_for_update has no KEY SHARE: concurrent events would wait for each other.
    locked = WebhookEndpoint.unscoped.raw(f"{statement} FOR KEY SHARE", values)
    return list(locked.prefetch_related("tenant"))


def event_create(*, endpoints: Iterable[WebhookEndpoint], kind: EventKind, data: Mapping[str, Any]) -> None:
    """Create deliveries of an event to these endpoints of one tenant, in the transaction of the event.

    If ``MAX_WAITING_DELIVERIES`` wait for an endpoint already, its delivery is stored as failed and can be
    replayed later. ``data`` has ids, names and links; receivers ask the API for the rest.
    """
    now, event_id = timezone.now(), _new_id()
    payload = {"type": kind.value, "timestamp": now.isoformat(), "data": dict(data)}
    endpoints = list(endpoints)
    waiting = _waiting(endpoints)
    rows = [
        WebhookDelivery(
            tenant=endpoint.tenant,
            endpoint=endpoint,
            event_id=event_id,
            kind=kind,
            payload=payload,
            **({"next_attempt_at": now} if waiting[endpoint.pk] < MAX_WAITING_DELIVERIES else _not_sent(now)),
        )
        for endpoint in endpoints
    ]
    if rows:
        WebhookDelivery.unscoped.bulk_create(rows)
        _dispatch_on_commit()


@transaction.atomic
def webhook_test(*, endpoint: WebhookEndpoint, actor: Actor) -> WebhookDelivery:
    """Send a test event to the endpoint, whatever its kinds. A disabled endpoint gets it once it is enabled.

    Raises ``quota_exceeded`` if too many deliveries wait.
    """
    found = webhook_lock(endpoint)
    _check_waiting_count(found)
    data = {**event_links(found.tenant), "webhook": str(found.pk)}
    event_create(endpoints=[found], kind=EventKind.TEST, data=data)
    webhook_audit("webhook.test", found, actor, {})
    return WebhookDelivery.objects.for_tenant(found.tenant).filter(endpoint=found).latest("created_at")


@transaction.atomic
def delivery_replay(*, delivery: WebhookDelivery, actor: Actor) -> WebhookDelivery:
    """Send an event again with the same id, as a new delivery with all attempts.

    Raises ``quota_exceeded`` if too many deliveries wait.
    """
    found = webhook_lock(delivery.endpoint)
    _check_waiting_count(found)
    again = WebhookDelivery(
        tenant=found.tenant,
        endpoint=found,
        event_id=delivery.event_id,
        kind=delivery.kind,
        payload=delivery.payload,
        next_attempt_at=timezone.now(),
    )
    again.save(force_insert=True)
    webhook_audit("webhook.replay", found, actor, {"event": delivery.event_id})
    _dispatch_on_commit()
    return again


def event_links(tenant: Tenant, **places: str) -> dict[str, Any]:
    """The tenant of an event, and links to API resources: paths relative to the tenant's."""
    above = f"/api/v1/tenants/{tenant.slug}"
    links = {name: f"{above}/{place}" for name, place in places.items()}
    return {"tenant": tenant.slug, "links": links or {"tenant": above}}


def _waiting(endpoints: Iterable[WebhookEndpoint]) -> Counter[UUID]:
    """Endpoint -> number of waiting deliveries."""
    waiting = WebhookDelivery.unscoped.filter(endpoint__in=endpoints, state=DeliveryState.WAITING).order_by()
    return Counter(dict(waiting.values("endpoint").annotate(n=Count("pk")).values_list("endpoint", "n")))


def _check_waiting_count(endpoint: WebhookEndpoint) -> None:
    waiting = _waiting([endpoint])[endpoint.pk]
    if waiting >= MAX_WAITING_DELIVERIES:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{waiting:,} deliveries wait for this webhook. Send more when some have been delivered.",
            details={"quota": "waiting deliveries", "limit": MAX_WAITING_DELIVERIES, "used": waiting},
        )


def _not_sent(now: datetime) -> dict[str, Any]:
    """The fields of a delivery that is not queued."""
    limit = f"{MAX_WAITING_DELIVERIES:,}"
    error = f"Not sent: {limit} deliveries were waiting for this webhook already. Replay it if you need it."
    attempt = {"at": now.isoformat(), "ms": 0, "status": None, "error": error, "excerpt": ""}
    return {"state": DeliveryState.FAILED, "finished_at": now, "attempt_log": [attempt]}


def _new_id() -> str:
    return f"evt_{secrets.token_hex(16)}"


def _dispatch_on_commit() -> None:
    transaction.on_commit(partial(dispatch, SEND_WEBHOOKS_TASK, queue=SHORT_QUEUE))
