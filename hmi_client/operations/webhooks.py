"""Webhooks and their deliveries."""

from collections.abc import Iterator, Sequence
from typing import Any

from hmi_client.connection import Connection
from hmi_client.responses import Delivery, Webhook
from hmi_client.server import as_list, url_path

DAY_S = 24 * 3600


class WebhookMethods(Connection):
    """Webhooks and their deliveries."""

    def list_webhooks(self) -> Iterator[Webhook]:
        """List the tenant's webhooks, oldest first."""
        return self._pages(Webhook, "webhooks")

    def get_webhook(self, webhook_id: str) -> Webhook:
        """Get a webhook, without its secret."""
        return self._get(Webhook, url_path("webhooks", webhook_id))

    def create_webhook(self, url: str, *, kinds: str | Sequence[str], description: str = "") -> Webhook:
        """Create a webhook for events such as ``job.succeeded``. The ``secret`` is in this response only."""
        body = {"url": url, "kinds": as_list(kinds), "description": description}
        return self._post(Webhook, "webhooks", body)

    def update_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        kinds: str | Sequence[str] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change those fields of a webhook that are given."""
        fields: dict[str, Any] = {
            "url": url,
            "kinds": None if kinds is None else as_list(kinds),
            "description": description,
            "enabled": enabled,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        return self._change(Webhook, "PATCH", url_path("webhooks", webhook_id), body)

    def delete_webhook(self, webhook_id: str) -> None:
        """Delete a webhook with its log. Conflict while a delivery is under way."""
        self._request("DELETE", url_path("webhooks", webhook_id))

    def rotate_webhook_secret(self, webhook_id: str, *, overlap_s: int = DAY_S) -> Webhook:
        """Replace the secret. Requests are signed with both for ``overlap_s`` seconds, at most a week. The
        new ``secret`` is in this response only."""
        path = url_path("webhooks", webhook_id, "rotate")
        return self._post(Webhook, path, {"overlap_s": overlap_s})

    def test_webhook(self, webhook_id: str) -> Delivery:
        """Send a test event to a webhook."""
        return self._post(Delivery, url_path("webhooks", webhook_id, "test"))

    def list_deliveries(self, webhook_id: str) -> Iterator[Delivery]:
        """List the deliveries to a webhook, newest first. They are kept for 30 days."""
        return self._pages(Delivery, url_path("webhooks", webhook_id, "deliveries"))

    def replay_delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Send an event again, with the same id."""
        path = url_path("webhooks", webhook_id, "deliveries", delivery_id, "replay")
        return self._post(Delivery, path)
