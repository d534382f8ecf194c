"""Telling Celery that a job is queued. The message is only a nudge: the job row is the truth."""

import logging
from typing import Final
from uuid import UUID

from celery import current_app
from django.db import transaction

log = logging.getLogger(__name__)

RUN_JOB_TASK: Final = "workers.run_job"
TRAINING_QUEUE: Final = "training"
# Somebody may be waiting for the answer to a request: a broker that is down must not hold them for long.
IMPATIENT: Final = {"max_retries": 1, "socket_connect_timeout": 2.0, "socket_timeout": 2.0}


def job_nudge(*, job_id: UUID, priority: int) -> None:
    """Send the job's id to the training queue once the transaction is committed.

    On Redis the transport keeps a list for each of the priorities 0, 3, 6 and 9, and workers empty them in
    that order.
    """
    transaction.on_commit(lambda: _send(job_id, priority))


def _send(job_id: UUID, priority: int) -> None:
    try:
        with current_app.connection_for_write(transport_options=IMPATIENT) as connection:
            current_app.send_task(
                RUN_JOB_TASK,
                args=[str(job_id)],
                queue=TRAINING_QUEUE,
                priority=priority,
                connection=connection,
                retry=False,
            )
    except Exception:
        # The job stays queued and the reaper nudges again, so a broker that is down delays it and no more.
        log.exception("Job %s is queued, but the broker took no message", job_id)
