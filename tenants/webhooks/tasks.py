"""Celery tasks of webhooks."""

from typing import Final

from celery import shared_task

from tenants.webhooks.services.delivery import webhooks_send
from tenants.webhooks.services.events import SEND_WEBHOOKS_TASK

SENDING_S: Final = 20.0


@shared_task(name=SEND_WEBHOOKS_TASK)
def send_webhooks() -> None:
    """Send what is due to webhooks; what remains then waits for the next message, seconds later."""
    webhooks_send(for_s=SENDING_S)
