"""Telling Celery that there is work. A message is only a nudge: the row of the job or check is the truth."""

import logging
from typing import Final
from uuid import UUID

from celery import current_app
from django.db import transaction

log = logging.getLogger(__name__)

RUN_JOB_TASK: Final = "workers.run_job"
RUN_CHECK_TASK: Final = "workers.run_check"
COVERAGE_TASK: Final = "workers.measure_coverage"
FINE_TUNING_TASK: Final = "workers.begin_fine_tuning"
TAKEOUT_TASK: Final = "workers.take_out"
LEAVING_TASK: Final = "workers.let_tenants_leave"
WEBHOOKS_TASK: Final = "workers.send_webhooks"
BATCH_TASK: Final = "batches.run"
TRAINING_QUEUE: Final = "training"
UPLOADS_QUEUE: Final = "uploads"
"""Reading uploads takes minutes: what keeps the system in order must not wait behind it."""
WEBHOOKS_QUEUE: Final = "webhooks"
"""Receivers may be slow to answer, and are nobody's whom one could know."""
BATCHES_QUEUE: Final = "batches"
"""A batch takes as long as the requests of others leave it."""
# Somebody may be waiting for the answer to a request: a broker that is down must not hold them for long.
IMPATIENT: Final = {"max_retries": 1, "socket_connect_timeout": 2.0, "socket_timeout": 2.0}


def job_nudge(*, job_id: UUID, priority: int) -> None:
    """Send the job's id to the training queue once the transaction is committed.

    On Redis the transport keeps a list for each of the priorities 0, 3, 6 and 9, and workers empty them in
    that order.
    """
    transaction.on_commit(lambda: _send(RUN_JOB_TASK, [str(job_id)], TRAINING_QUEUE, priority))


def check_nudge_send(*, check_id: UUID, **_: object) -> None:
    """Send the id of a check of uploads to the queue of uploads; what ``tenants.signals`` asks for."""
    _send(RUN_CHECK_TASK, [str(check_id)], UPLOADS_QUEUE, 0)


def takeout_nudge_send(*, takeout_id: UUID, **_: object) -> None:
    """Have all data of a tenant put into a file; what ``tenants.signals`` asks for."""
    _send(TAKEOUT_TASK, [str(takeout_id)], UPLOADS_QUEUE, 0)


def fine_tuning_nudge_send(*, fine_tuning_id: UUID) -> None:
    """Have the files of a fine-tuning read and its jobs made."""
    _send(FINE_TUNING_TASK, [str(fine_tuning_id)], UPLOADS_QUEUE, 0)


def leaving_nudge() -> None:
    """Have the data of tenants that leave deleted."""
    _send(LEAVING_TASK, [], UPLOADS_QUEUE, 0)


def webhooks_nudge_send(**_: object) -> None:
    """Have sent what waits for webhooks; what ``tenants.signals`` asks for."""
    _send(WEBHOOKS_TASK, [], WEBHOOKS_QUEUE, 0)


def batch_nudge_send(*, batch_id: UUID) -> None:
    """Have a batch gone on with."""
    _send(BATCH_TASK, [str(batch_id)], BATCHES_QUEUE, 0)


def coverage_nudge(*, kind: str, upload_id: int) -> None:
    """Have it measured how much of a ``corpus`` or ``dataset`` each table holds."""
    _send(COVERAGE_TASK, [kind, upload_id], UPLOADS_QUEUE, 0)


def _send(task: str, args: list[str | int], queue: str, priority: int) -> None:
    try:
        with current_app.connection_for_write(transport_options=IMPATIENT) as connection:
            current_app.send_task(
                task, args=args, queue=queue, priority=priority, connection=connection, retry=False
            )
    except Exception:
        # It is asked for again, so a broker that is down delays it and no more.
        log.exception("%s waits for %s, but the broker took no message", args, task)
