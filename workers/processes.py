"""How Celery's processes treat jobs.

Each job gets a pool process of its own: torch is imported there and not in the worker's main process, and when the
process ends, every byte a training took goes back to the system, the allocator's leftovers too. A fork of the
small main process costs milliseconds; a job killed for want of memory takes nothing else with it. Short tasks,
which come every few seconds, keep their processes.
"""

from typing import Any

from celery import signals

from versiontree.services.nudges import TRAINING_QUEUE


@signals.celeryd_init.connect
def one_process_per_job(conf: Any, options: dict[str, Any], **_: Any) -> None:
    """Renew the pool process after every task of a worker that takes jobs."""
    queues = options.get("queues") or ()
    names = queues.split(",") if isinstance(queues, str) else queues
    if TRAINING_QUEUE in names:
        conf.worker_max_tasks_per_child = 1
