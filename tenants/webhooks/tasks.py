"""Celery tasks of webhooks."""

from typing import Final

from celery import shared_task

from tenants.webhooks.services.delivery import webhooks_send
from tenants.webhooks.services.events import SEND_WEBHOOKS_TASK

MAX_SECONDS: Final = 20.0


@shared_task(name=SEND_WEBHOOKS_TASK)
def send_webhooks() -> None:
    """Send due deliveries for some seconds. The rest is sent after the next message."""
    webhooks_send(max_seconds=MAX_SECONDS)
