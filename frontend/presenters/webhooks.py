"""Deliveries of webhooks."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from frontend.status import RETRYING
from tenants.webhooks.models import DeliveryState, WebhookDelivery


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """A row of a delivery. `result` is that of the last attempt; `attempts` have `at`, `ms`, `result` and
    `excerpt`."""

    delivery: WebhookDelivery
    state: str
    result: str
    attempts: list[dict[str, Any]]
    body: str

    @property
    def is_waiting(self) -> bool:
        """Whether the first attempt is still to come."""
        return self.delivery.state == DeliveryState.WAITING and not self.attempts


def delivery_rows(deliveries: Iterable[WebhookDelivery]) -> list[DeliveryRow]:
    """Return the rows of deliveries, in the given order."""
    return [_delivery(delivery) for delivery in deliveries]


def _delivery(delivery: WebhookDelivery) -> DeliveryRow:
    attempts = [_attempt(one) for one in delivery.attempt_log]
    retrying = delivery.state == DeliveryState.WAITING and bool(attempts)
    return DeliveryRow(
        delivery,
        state=RETRYING if retrying else delivery.state,
        result=attempts[-1]["result"] if attempts else "",
        attempts=attempts,
        body=json.dumps(delivery.payload, indent=1, ensure_ascii=False),
    )


def _attempt(one: dict[str, Any]) -> dict[str, Any]:
    result = one["error"] or f"The response was {one['status']}."
    return {**one, "at": datetime.fromisoformat(one["at"]), "result": result}
