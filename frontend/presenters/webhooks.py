"""Rows of webhooks and their deliveries."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frontend.status import RETRYING
from tenants.webhooks.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.endpoints import endpoint_host


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """A row of a webhook. `state` is active, failing or off."""

    pk: object
    host: str
    url: str
    description: str
    kinds: list[str]
    state: str
    waiting: int
    delivered: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt to deliver an event: time, duration and result."""

    at: datetime
    ms: int
    result: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """A row of a delivery. `result` is that of the last attempt."""

    pk: object
    kind: str
    event_id: str
    state: str
    attempts: int
    at: datetime
    next_at: datetime | None
    result: str
    tries: list[AttemptRow]
    body: str


def webhook_rows(endpoints: Iterable[WebhookEndpoint]) -> list[WebhookRow]:
    """Return the rows of endpoints from `webhooks_of`."""
    return [webhook_row(endpoint) for endpoint in endpoints]


def webhook_row(endpoint: Any) -> WebhookRow:
    """Return the row of an endpoint from `webhooks_of`."""
    return WebhookRow(
        pk=endpoint.pk,
        host=endpoint_host(endpoint),
        url=endpoint.url,
        description=endpoint.description,
        kinds=endpoint.kinds,
        state=state_of(endpoint),
        waiting=endpoint.waiting,
        delivered=endpoint.delivered_at,
    )


def state_of(endpoint: WebhookEndpoint) -> str:
    """Return the state of an endpoint: active, failing or off."""
    if not endpoint.is_enabled:
        return "off"
    return "failing" if endpoint.failing_since else "active"


def delivery_rows(deliveries: Iterable[WebhookDelivery]) -> list[DeliveryRow]:
    """Return the rows of deliveries, in the given order."""
    return [_delivery(delivery) for delivery in deliveries]


def _delivery(delivery: WebhookDelivery) -> DeliveryRow:
    tries = [_attempt(one) for one in delivery.attempt_log]
    retrying = delivery.state == DeliveryState.WAITING and bool(tries)
    return DeliveryRow(
        pk=delivery.pk,
        kind=delivery.kind,
        event_id=delivery.event_id,
        state=RETRYING if retrying else delivery.state,
        attempts=delivery.attempts,
        at=delivery.created_at,
        next_at=delivery.next_attempt_at if retrying else None,
        result=tries[-1].result if tries else "",
        tries=tries,
        body=json.dumps(delivery.payload, indent=1, ensure_ascii=False),
    )


def _attempt(one: dict[str, Any]) -> AttemptRow:
    result = one["error"] or f"The response was {one['status']}."
    return AttemptRow(
        at=datetime.fromisoformat(one["at"]), ms=one["ms"], result=result, excerpt=one["excerpt"]
    )
