"""Celery tasks that need PyTorch. A message may come twice, late, or for a deleted job."""

import logging
import time
from functools import cache, partial
from importlib import import_module
from threading import Thread
from typing import Any, Final
from uuid import UUID

from celery import Task, current_app, shared_task
from celery.signals import worker_process_init

from tenants.base.child_process import LONG_TASK_TIME_LIMIT_S, TASK_TIME_LIMIT_S, run_in_child_or_log
from tenants.base.dispatch import QUICK_QUEUE
from versiontree.jobs.services.control import message_is_stale
from versiontree.jobs.services.shards import RUN_SHARDS_TASK
from versiontree.jobs.services.transitions import RUN_BACKGROUND_JOB_TASK, RUN_JOB_TASK
from versiontree.tree.selectors.coverage import MEASURE_COVERAGE_TASK
from versiontree.tree.serving_manifest import manifest_publish
from workers import runner
from workers.job_process import run_job_in_child

log = logging.getLogger(__name__)


@shared_task(name=RUN_JOB_TASK, bind=True)
def run_job(task: "Task[Any, Any]", job_id: str) -> None:
    """Run one job in a child process; if that dies, lease recovery takes care of the job.

    Ignores a message sent before the job's priority was changed.
    """
    sent_at = (task.request.delivery_info or {}).get("priority")
    if message_is_stale(job_id=UUID(job_id), priority=sent_at):
        log.info("Job %s has another priority by now", job_id)
        return
    load_training()
    if code := run_job_in_child(UUID(job_id)):
        log.error("The process of job %s ended with %d", job_id, code)


@shared_task(name=RUN_BACKGROUND_JOB_TASK, soft_time_limit=LONG_TASK_TIME_LIMIT_S)
def run_background_job(job_id: str) -> None:
    """Run one background job in a child process; if that dies, lease recovery takes care of the job."""
    run_in_child_or_log(partial(runner.run_background_job, UUID(job_id)), f"background job {job_id}")


@shared_task(name=RUN_SHARDS_TASK)
def run_shards(job_id: str) -> None:
    """Process shards of a running job; if the process dies, another takes over its shard."""
    load_training()
    run_in_child_or_log(partial(runner.help_job, UUID(job_id)), f"shards of job {job_id}")


@shared_task(name=MEASURE_COVERAGE_TASK, soft_time_limit=TASK_TIME_LIMIT_S)
def measure_coverage(kind: str, upload_id: int) -> None:
    """Measure the coverage of an upload by the tables of each root and domain."""
    run_in_child_or_log(partial(_measure, kind, upload_id), f"the coverage of {kind} {upload_id}")


def _measure(kind: str, upload_id: int) -> None:
    # Imported in the child process, so that only that loads NumPy and torch.
    from workers.coverage import coverage_measure

    coverage_measure(kind, upload_id)


@shared_task(name="workers.publish_manifest")
def publish_manifest() -> None:
    """Publish the serving manifest."""
    manifest_publish()


@worker_process_init.connect
def load_training_early(**_: Any) -> None:
    """Load the training libraries before the first quick version waits for them; in a thread, as Celery
    waits for this."""
    if QUICK_QUEUE in current_app.amqp.queues.consume_from:
        Thread(target=load_training, daemon=True).start()


TRAINING_MODULES: Final = (
    "workers.training.quick",
    "workers.training.fine_tune",
    "workers.training.plots",
    "workers.training.convert",
)
"""Modules that together import all libraries that trainings need."""


@cache
def load_training() -> None:
    """Import the training libraries once, for all child processes forked from this one."""
    started = time.perf_counter()
    for name in TRAINING_MODULES:
        import_module(name)
    log.info("Loaded the training libraries in %.1f s", time.perf_counter() - started)
