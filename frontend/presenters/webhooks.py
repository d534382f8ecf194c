"""Webhooks and what was sent there, as pages show them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenants.webhooks.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.endpoints import endpoint_host


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """One line of the list; `state` is active, failing or off."""

    pk: object
    host: str
    url: str
    description: str
    kinds: list[str]
    state: str
    waiting: int
    delivered: datetime | None


@dataclass(frozen=True, slots=True)
class TryLine:
    """One try: when, how long it took, and what came of it."""

    at: datetime
    ms: int
    said: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One line of the log. `said` is what came of the last try; `body` is what is sent."""

    pk: object
    kind: str
    event_id: str
    state: str
    attempts: int
    at: datetime
    next_at: datetime | None
    said: str
    tries: list[TryLine]
    body: str

    @property
    def key(self) -> str:
        """A word for ids of the page."""
        return str(self.pk)


def webhook_rows(endpoints: Iterable[WebhookEndpoint]) -> list[WebhookRow]:
    """The rows of the list; the endpoints are those of `webhooks_of`."""
    return [webhook_row(endpoint) for endpoint in endpoints]


def webhook_row(endpoint: Any) -> WebhookRow:
    """One of them."""
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
    """In one word."""
    if not endpoint.is_enabled:
        return "off"
    return "failing" if endpoint.failing_since else "active"


def delivery_rows(deliveries: Iterable[WebhookDelivery]) -> list[DeliveryRow]:
    """The rows of the log, in the order given."""
    return [_delivery(delivery) for delivery in deliveries]


def _delivery(delivery: WebhookDelivery) -> DeliveryRow:
    tries = [_try(one) for one in delivery.attempt_log]
    return DeliveryRow(
        pk=delivery.pk,
        kind=delivery.kind,
        event_id=delivery.event_id,
        state=delivery.state,
        attempts=delivery.attempts,
        at=delivery.created_at,
        next_at=delivery.next_attempt_at if delivery.state == DeliveryState.WAITING and tries else None,
        said=tries[-1].said if tries else "",
        tries=tries,
        body=json.dumps(delivery.payload, indent=1, ensure_ascii=False),
    )


def _try(one: dict[str, Any]) -> TryLine:
    said = one["error"] or f"The response was {one['status']}."
    return TryLine(at=datetime.fromisoformat(one["at"]), ms=one["ms"], said=said, excerpt=one["excerpt"])
