"""Dispatch of Celery tasks.

A message only names a row. The row holds the state and the lease, so a lost message is sent again by the
periodic tasks, and a duplicate does no harm.
"""

import logging
from typing import Final

from celery import current_app

log = logging.getLogger(__name__)

TRAINING_QUEUE: Final = "training"
QUICK_QUEUE: Final = "quick"
"""Quick versions: seconds each, which no training holds up."""
LONG_QUEUE: Final = "long"
"""Work of minutes or hours: background jobs and batches."""
SHORT_QUEUE: Final = "short"
"""Periodic tasks, and what mostly waits for the network: webhooks and e-mails."""
LOWEST_PRIORITY: Final = 9
# Short timeouts: a request may be waiting, and the broker may be down.
BROKER_OPTIONS: Final = {"max_retries": 1, "socket_connect_timeout": 2.0, "socket_timeout": 2.0}


def dispatch(
    task: str, *args: str | int, queue: str, priority: int = 0, time_limit_s: int | None = None
) -> None:
    """Send a task to a queue. Call it after the commit. If the broker is down, this only logs it.

    ``time_limit_s`` replaces the soft time limit of the task.

    The Redis transport has a list for each of the priorities 0, 3, 6 and 9, emptied in that order.
    """
    try:
        with current_app.connection_for_write(transport_options=BROKER_OPTIONS) as connection:
            current_app.send_task(
                task,
                args=list(args),
                queue=queue,
                priority=priority,
                soft_time_limit=time_limit_s,
                connection=connection,
                retry=False,
            )
    except Exception:
        log.exception("Could not dispatch %s%s: the broker is unavailable", task, args)
