"""Celery tasks of webhooks."""

import threading
from typing import Final

from celery import shared_task

from tenants.webhooks.services.delivery import webhooks_send
from tenants.webhooks.services.events import SEND_WEBHOOKS_TASK

MAX_SECONDS: Final = 20.0
MAX_SENDERS: Final = 6
"""Threads of the worker that send at a time. Slow receivers must leave some for other tasks."""
_senders = threading.BoundedSemaphore(MAX_SENDERS)


@shared_task(name=SEND_WEBHOOKS_TASK)
def send_webhooks() -> None:
    """Send due deliveries for some seconds, unless ``MAX_SENDERS`` threads do so. The rest is sent after the
    next message, in some seconds."""
    if _senders.acquire(blocking=False):
        try:
            webhooks_send(max_seconds=MAX_SECONDS)
        finally:
            _senders.release()
