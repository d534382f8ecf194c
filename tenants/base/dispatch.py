"""Sending Celery a message. It is only a nudge: it names a row, and the row is the truth (its state, its
lease). One that is lost is sent again by the periodic tasks."""

import logging
from typing import Final

from celery import current_app

log = logging.getLogger(__name__)

TRAINING_QUEUE: Final = "training"
UPLOADS_QUEUE: Final = "uploads"
"""Reading uploads takes minutes: what keeps the system in order must not wait behind it."""
WEBHOOKS_QUEUE: Final = "webhooks"
"""Receivers may be slow to answer, and are nobody's whom one could know."""
BATCHES_QUEUE: Final = "batches"
"""A batch takes as long as the requests of others leave it."""
# Somebody may be waiting for the answer to a request: a broker that is down must not hold them for long.
BROKER_OPTIONS: Final = {"max_retries": 1, "socket_connect_timeout": 2.0, "socket_timeout": 2.0}


def dispatch(task: str, *args: str | int, queue: str, priority: int = 0) -> None:
    """Send a message for the task of this name to a queue; a broker that is down is logged, and nothing else.

    On Redis the transport keeps a list for each of the priorities 0, 3, 6 and 9, emptied in that order. Call
    it once the transaction is committed.
    """
    try:
        with current_app.connection_for_write(transport_options=BROKER_OPTIONS) as connection:
            current_app.send_task(
                task, args=list(args), queue=queue, priority=priority, connection=connection, retry=False
            )
    except Exception:
        log.exception("%s waits for %s, but the broker took no message", args, task)
