"""What Celery calls. A message is a nudge: it may come twice, late, or for a job that is gone."""

import logging
from functools import partial
from typing import Final
from uuid import UUID

from celery import shared_task

from tenants.services.checks import check_run, checks_expire, checks_nudge_lost
from tenants.services.uploads import uploads_expire
from versiontree.services.collect import artifacts_collect
from versiontree.services.compact import domains_compact_due
from versiontree.services.jobs import jobs_reap
from versiontree.serving import manifest_publish
from workers import runner
from workers.jobs.grow import counts_tidy
from workers.memory import run_job_apart
from workers.processes import run_apart

log = logging.getLogger(__name__)

LOOKING_S: Final = 1800
"""What reads uploads may not hold its queue for ever. The limit raises in the pool process, which then kills
the process it waits for.
"""


@shared_task(name="workers.run_job")
def run_job(job_id: str) -> None:
    """Run one job to its end. A process that dies over it leaves it to the reaper, as a worker does, unless
    the kernel killed it for want of memory.
    """
    if code := run_job_apart(UUID(job_id)):
        log.error("The process of job %s ended with %d", job_id, code)


@shared_task(name="workers.run_shards")
def run_shards(job_id: str) -> None:
    """Help a running job with its parts. What a process that dies over one had, another takes over."""
    if code := run_apart(partial(runner.help_job, UUID(job_id))):
        log.error("The process that helped job %s ended with %d", job_id, code)


@shared_task(name="workers.run_check", soft_time_limit=LOOKING_S)
def run_check(check_id: str) -> None:
    """Check uploads that are too large to be checked while a request waits."""
    if code := run_apart(partial(check_run, check_id=UUID(check_id))):
        log.error("The process of check %s ended with %d", check_id, code)


@shared_task(name="workers.measure_coverage", soft_time_limit=LOOKING_S)
def measure_coverage(kind: str, upload_id: int) -> None:
    """Find out how much of an upload the tables of each root and domain hold."""
    if code := run_apart(partial(measuring, kind, upload_id)):
        log.error("The process that measured the coverage of %s %d ended with %d", kind, upload_id, code)


def measuring(kind: str, upload_id: int) -> None:
    """In a process of its own: only there NumPy and torch are loaded."""
    from workers.coverage import coverage_measure

    coverage_measure(kind, upload_id)


@shared_task(name="workers.collect")
def collect() -> None:
    """Remove artifacts, staging folders and uploads that nothing needs any more, and compact long chains."""
    checks_expire()
    uploads_expire()
    artifacts_collect()
    domains_compact_due()


@shared_task(name="workers.reap")
def reap() -> None:
    """Return jobs whose worker died to the queue, and nudge those jobs and checks whose message was lost."""
    jobs_reap()
    checks_nudge_lost()


@shared_task(name="workers.publish_manifest")
def publish_manifest() -> None:
    """Write down anew what inference workers serve, and delete counts of tenants that do not share them."""
    # Workers learn from the manifest whose fragments they count; what they counted until then goes with it.
    manifest_publish()
    counts_tidy()
