"""Events for webhooks, written in the transaction of what they tell of: what did not happen is not told, and
what happened is, whoever dies."""

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
from tenants.audit.services import Actor, audit_record
from tenants.base.dispatch import WEBHOOKS_QUEUE, dispatch
from tenants.base.errors import ErrorCode, HmiError
from tenants.webhooks.models import DeliveryState, EventKind, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.endpoints import host_of, webhook_locked

SEND_WEBHOOKS_TASK: Final = "webhooks.send"
MOST_WAITING: Final = 1_000
"""Deliveries that wait for one endpoint: a receiver that is away for long fills no more of the database."""


def endpoints_for(tenant_id: int, kind: EventKind) -> list[WebhookEndpoint]:
    """Where the tenant wants to hear of this. Until the transaction ends none of them is deleted: whoever
    wants to waits, and then deletes what was written for it, too."""
    wanted = WebhookEndpoint.unscoped.filter(tenant_id=tenant_id, disabled_at=None, kinds__contains=[kind])
    statement, values = wanted.query.sql_with_params()
    # Django knows only locks that would have tellers wait for one another.
    held = WebhookEndpoint.unscoped.raw(f"{statement} FOR KEY SHARE", values)
    return list(held.prefetch_related("tenant"))


def event_create(*, endpoints: Iterable[WebhookEndpoint], kind: EventKind, data: Mapping[str, Any]) -> None:
    """Have these endpoints of one tenant hear of an event; call it inside the transaction of the event.

    Where ``MOST_WAITING`` wait already, it is only written to the log, as failed: it can be replayed later.
    ``data`` says what it is about by ids, names and links: whoever hears of it asks the API for the rest.
    """
    now, event_id = timezone.now(), _new_id()
    payload = {"type": kind.value, "timestamp": now.isoformat(), "data": dict(data)}
    told = list(endpoints)
    waiting = _waiting(told)
    rows = [
        WebhookDelivery(
            tenant=endpoint.tenant,
            endpoint=endpoint,
            event_id=event_id,
            kind=kind,
            payload=payload,
            **({"next_attempt_at": now} if waiting[endpoint.pk] < MOST_WAITING else _not_sent(now)),
        )
        for endpoint in told
    ]
    if rows:
        WebhookDelivery.unscoped.bulk_create(rows)
        _dispatch_on_commit()


@transaction.atomic
def webhook_test(*, endpoint: WebhookEndpoint, actor: Actor) -> WebhookDelivery:
    """Send a test to the endpoint, whatever kinds it wants; one that is turned off gets it once it is on.

    Raises ``quota_exceeded`` while too many deliveries wait there.
    """
    found = webhook_locked(endpoint)
    _check_number(found)
    data = {**links_of(found.tenant), "webhook": str(found.pk)}
    event_create(endpoints=[found], kind=EventKind.TEST, data=data)
    _record("webhook.test", found, actor, {})
    return WebhookDelivery.objects.for_tenant(found.tenant).filter(endpoint=found).latest("created_at")


@transaction.atomic
def delivery_replay(*, delivery: WebhookDelivery, actor: Actor) -> WebhookDelivery:
    """Send an event once more, with the same id, from the first try on; the log keeps both.

    Raises ``quota_exceeded`` while too many deliveries wait there.
    """
    found = webhook_locked(delivery.endpoint)
    _check_number(found)
    again = WebhookDelivery(
        tenant=found.tenant,
        endpoint=found,
        event_id=delivery.event_id,
        kind=delivery.kind,
        payload=delivery.payload,
        next_attempt_at=timezone.now(),
    )
    again.save(force_insert=True)
    _record("webhook.replay", found, actor, {"event": delivery.event_id})
    _dispatch_on_commit()
    return again


def links_of(tenant: Tenant, **places: str) -> dict[str, Any]:
    """Whose event it is, and where in the API the rest is to be had: paths below the tenant's."""
    above = f"/api/v1/tenants/{tenant.slug}"
    links = {name: f"{above}/{place}" for name, place in places.items()}
    return {"tenant": tenant.slug, "links": links or {"tenant": above}}


def _waiting(endpoints: Iterable[WebhookEndpoint]) -> Counter[UUID]:
    """Endpoint -> how many deliveries wait for it."""
    waiting = WebhookDelivery.unscoped.filter(endpoint__in=endpoints, state=DeliveryState.WAITING).order_by()
    return Counter(dict(waiting.values("endpoint").annotate(n=Count("pk")).values_list("endpoint", "n")))


def _check_number(endpoint: WebhookEndpoint) -> None:
    there = _waiting([endpoint])[endpoint.pk]
    if there >= MOST_WAITING:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{there:,} deliveries wait for this webhook; send more when its receiver has taken some.",
            details={"quota": "waiting deliveries", "limit": MOST_WAITING, "used": there},
        )


def _not_sent(now: datetime) -> dict[str, Any]:
    """Of a delivery that has no place in the queue."""
    error = (
        f"Not sent: {MOST_WAITING:,} deliveries waited for this webhook already. Replay it if you need it."
    )
    tried = {"at": now.isoformat(), "ms": 0, "status": None, "error": error, "excerpt": ""}
    return {"state": DeliveryState.FAILED, "finished_at": now, "tries": [tried]}


def _new_id() -> str:
    return f"evt_{secrets.token_hex(16)}"


def _dispatch_on_commit() -> None:
    transaction.on_commit(partial(dispatch, SEND_WEBHOOKS_TASK, queue=WEBHOOKS_QUEUE))


def _record(verb: str, endpoint: WebhookEndpoint, actor: Actor, detail: dict[str, Any]) -> None:
    audit_record(
        verb=verb,
        subject=host_of(endpoint),
        tenant=endpoint.tenant,
        actor=actor,
        detail={"webhook": str(endpoint.pk), **detail},
    )
