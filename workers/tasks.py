"""Celery tasks that need PyTorch. A message is a nudge: it may come twice, late, or for a job that is
gone."""

import logging
import time
from functools import cache, partial
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from celery import Task, shared_task

from tenants.base.child_process import TASK_TIME_LIMIT_S, run_in_child_or_log
from versiontree.jobs.services.control import message_is_stale
from versiontree.jobs.services.shards import RUN_SHARDS_TASK
from versiontree.jobs.services.transitions import RUN_JOB_TASK
from versiontree.tree.selectors.coverage import MEASURE_COVERAGE_TASK
from versiontree.tree.serving_manifest import manifest_publish
from workers import runner
from workers.jobs.grow import counts_tidy
from workers.out_of_memory import run_job_in_child

log = logging.getLogger(__name__)


@shared_task(name=RUN_JOB_TASK, bind=True)
def run_job(task: "Task[Any, Any]", job_id: str) -> None:
    """Run one job to its end. A process that dies over it leaves it to the reaper, as a worker does, unless
    the kernel killed it for want of memory. A message from before the job's place in the queue was changed is
    let fall.
    """
    sent_at = (task.request.delivery_info or {}).get("priority")
    if message_is_stale(job_id=UUID(job_id), priority=sent_at):
        log.info("Job %s has another place in the queue by now", job_id)
        return
    load_training()
    if code := run_job_in_child(UUID(job_id)):
        log.error("The process of job %s ended with %d", job_id, code)


@shared_task(name=RUN_SHARDS_TASK)
def run_shards(job_id: str) -> None:
    """Help a running job with its parts. What a process that dies over one had, another takes over."""
    load_training()
    run_in_child_or_log(partial(runner.help_job, UUID(job_id)), f"help with job {job_id}")


@shared_task(name=MEASURE_COVERAGE_TASK, soft_time_limit=TASK_TIME_LIMIT_S)
def measure_coverage(kind: str, upload_id: int) -> None:
    """Find out how much of an upload the tables of each root and domain hold."""
    run_in_child_or_log(partial(measuring, kind, upload_id), f"the coverage of {kind} {upload_id}")


def measuring(kind: str, upload_id: int) -> None:
    """In a process of its own: only there NumPy and torch are loaded."""
    from workers.coverage import coverage_measure

    coverage_measure(kind, upload_id)


@shared_task(name="workers.publish_manifest")
def publish_manifest() -> None:
    """Write down anew what inference workers serve, and delete counts of tenants that do not share them."""
    # Workers learn from the manifest whose fragments they count; what they counted until then goes with it.
    manifest_publish()
    counts_tidy()


TRAINING: Final = ("workers.training.fine_tune", "workers.training.plots", "workers.training.convert")
"""What of ours imports, between them, all libraries that trainings need."""


@cache
def load_training() -> None:
    """Import what jobs need, for all that are forked off this process."""
    started = time.perf_counter()
    for name in TRAINING:
        import_module(name)
    log.info("Loaded what trains in %.1f s", time.perf_counter() - started)
