"""Deliveries of webhooks."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frontend.status import RETRYING
from tenants.webhooks.models import DeliveryState, WebhookDelivery


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
