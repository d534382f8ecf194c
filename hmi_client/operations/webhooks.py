"""Webhooks and their deliveries."""

from collections.abc import Sequence
from typing import Any

from hmi_client.flow import ApiRequest, Flow, as_list, get, paginate, post, send, url_path
from hmi_client.responses import Delivery, Webhook, from_json

DAY_S = 24 * 3600


def list_webhooks() -> Flow[None]:
    """List the tenant's webhooks, oldest first."""
    return (yield from paginate(Webhook, "webhooks"))


def get_webhook(webhook_id: str) -> Flow[Webhook]:
    """Get a webhook, without its secret."""
    return (yield from get(Webhook, url_path("webhooks", webhook_id)))


def create_webhook(url: str, *, kinds: str | Sequence[str], description: str = "") -> Flow[Webhook]:
    """Create a webhook for events such as ``job.succeeded``. The ``secret`` is in this response only."""
    body = {"url": url, "kinds": as_list(kinds), "description": description}
    return from_json(Webhook, (yield from post("webhooks", body)))


def update_webhook(
    webhook_id: str,
    *,
    url: str | None = None,
    kinds: str | Sequence[str] | None = None,
    description: str | None = None,
    enabled: bool | None = None,
) -> Flow[Webhook]:
    """Change those fields of a webhook that are given."""
    fields: dict[str, Any] = {
        "url": url,
        "kinds": None if kinds is None else as_list(kinds),
        "description": description,
        "enabled": enabled,
    }
    body = {name: value for name, value in fields.items() if value is not None}
    response = yield from send(ApiRequest("PATCH", url_path("webhooks", webhook_id), json=body))
    return from_json(Webhook, response.json())


def delete_webhook(webhook_id: str) -> Flow[None]:
    """Delete a webhook with its log. Conflict while a delivery is under way."""
    yield from send(ApiRequest("DELETE", url_path("webhooks", webhook_id)))


def rotate_webhook_secret(webhook_id: str, *, overlap_s: int = DAY_S) -> Flow[Webhook]:
    """Replace the secret. Requests are signed with both for ``overlap_s`` seconds, at most a week. The new
    ``secret`` is in this response only."""
    path = url_path("webhooks", webhook_id, "rotate")
    return from_json(Webhook, (yield from post(path, {"overlap_s": overlap_s})))


def test_webhook(webhook_id: str) -> Flow[Delivery]:
    """Send a test event to a webhook."""
    return from_json(Delivery, (yield from post(url_path("webhooks", webhook_id, "test"))))


def list_deliveries(webhook_id: str) -> Flow[None]:
    """List the deliveries to a webhook, newest first. They are kept for 30 days."""
    return (yield from paginate(Delivery, url_path("webhooks", webhook_id, "deliveries")))


def replay_delivery(webhook_id: str, delivery_id: str) -> Flow[Delivery]:
    """Send an event again, with the same id."""
    path = url_path("webhooks", webhook_id, "deliveries", delivery_id, "replay")
    return from_json(Delivery, (yield from post(path)))
