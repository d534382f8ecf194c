"""What Celery calls. A message is a nudge: it may come twice, late, or for a job that is gone."""

import logging
from functools import partial
from typing import Any, Final
from uuid import UUID

from celery import Task, shared_task

from tenants.services.checks import check_run, checks_expire, checks_nudge_lost
from tenants.services.files import files_expire
from tenants.services.invitations import invitations_forget
from tenants.services.kept_answers import answers_forget
from tenants.services.parted_files import parted_files_expire
from tenants.services.taking_out import takeouts_expire, takeouts_nudge_lost
from tenants.services.uploads import uploads_expire
from tenants.services.webhook_sending import deliveries_forget, webhooks_send
from versiontree.services.batches import batches_forget, batches_nudge_lost
from versiontree.services.collect import artifacts_collect
from versiontree.services.compact import domains_compact_due
from versiontree.services.fine_tunings import fine_tuning_begin, fine_tunings_nudge_lost
from versiontree.services.jobs import jobs_reap
from versiontree.services.leaving import tenants_leave
from versiontree.services.priorities import nudge_is_stale
from versiontree.services.taking_out import takeout_run
from versiontree.serving import manifest_publish
from workers import runner
from workers.jobs.grow import counts_tidy
from workers.memory import run_job_apart
from workers.processes import load_training, run_apart

log = logging.getLogger(__name__)

LOOKING_S: Final = 1800
"""What reads uploads may not hold its queue for ever. The limit raises in the pool process, which then kills
the process it waits for.
"""

TAKING_OUT_S: Final = 4 * 3600
"""All data of a tenant may be much."""


@shared_task(name="workers.run_job", bind=True)
def run_job(task: "Task[Any, Any]", job_id: str) -> None:
    """Run one job to its end. A process that dies over it leaves it to the reaper, as a worker does, unless
    the kernel killed it for want of memory. A message from before the job's place in the queue was changed is
    let fall.
    """
    sent_at = (task.request.delivery_info or {}).get("priority")
    if nudge_is_stale(job_id=UUID(job_id), priority=sent_at):
        log.info("Job %s has another place in the queue by now", job_id)
        return
    load_training()
    if code := run_job_apart(UUID(job_id)):
        log.error("The process of job %s ended with %d", job_id, code)


@shared_task(name="workers.run_shards")
def run_shards(job_id: str) -> None:
    """Help a running job with its parts. What a process that dies over one had, another takes over."""
    load_training()
    if code := run_apart(partial(runner.help_job, UUID(job_id))):
        log.error("The process that helped job %s ended with %d", job_id, code)


@shared_task(name="workers.run_check", soft_time_limit=LOOKING_S)
def run_check(check_id: str) -> None:
    """Check uploads that are too large to be checked while a request waits."""
    if code := run_apart(partial(check_run, check_id=UUID(check_id))):
        log.error("The process of check %s ended with %d", check_id, code)


@shared_task(name="workers.begin_fine_tuning", soft_time_limit=LOOKING_S)
def begin_fine_tuning(fine_tuning_id: str) -> None:
    """Make a dataset of files that a client of the OpenAI conventions sent, and plant the version."""
    if code := run_apart(partial(fine_tuning_begin, fine_tuning_id=UUID(fine_tuning_id))):
        log.error("The process that began the fine-tuning %s ended with %d", fine_tuning_id, code)


@shared_task(name="workers.take_out", soft_time_limit=TAKING_OUT_S)
def take_out(takeout_id: str) -> None:
    """Put all data of a tenant into one file."""
    if code := run_apart(partial(takeout_run, takeout_id=UUID(takeout_id))):
        log.error("The process of the export %s ended with %d", takeout_id, code)


@shared_task(name="workers.let_tenants_leave", soft_time_limit=TAKING_OUT_S)
def let_tenants_leave() -> None:
    """Go on deleting the data of tenants that leave."""
    if code := run_apart(tenants_leave):
        log.error("The process that deletes the data of tenants ended with %d", code)


@shared_task(name="workers.measure_coverage", soft_time_limit=LOOKING_S)
def measure_coverage(kind: str, upload_id: int) -> None:
    """Find out how much of an upload the tables of each root and domain hold."""
    if code := run_apart(partial(measuring, kind, upload_id)):
        log.error("The process that measured the coverage of %s %d ended with %d", kind, upload_id, code)


def measuring(kind: str, upload_id: int) -> None:
    """In a process of its own: only there NumPy and torch are loaded."""
    from workers.coverage import coverage_measure

    coverage_measure(kind, upload_id)


SENDING_S: Final = 20.0


@shared_task(name="workers.send_webhooks")
def send_webhooks() -> None:
    """Send what is due to webhooks; what remains then waits for the next message, seconds later."""
    webhooks_send(for_s=SENDING_S)


@shared_task(name="workers.collect")
def collect() -> None:
    """Remove artifacts, staging folders and uploads that nothing needs any more, and compact long chains."""
    checks_expire()
    uploads_expire()
    files_expire()
    parted_files_expire()
    takeouts_expire()
    invitations_forget()
    answers_forget()
    deliveries_forget()
    batches_forget()
    artifacts_collect()
    domains_compact_due()


@shared_task(name="workers.reap")
def reap() -> None:
    """Return jobs whose worker died to the queue, and nudge those jobs and checks whose message was lost."""
    jobs_reap()
    checks_nudge_lost()
    fine_tunings_nudge_lost()
    takeouts_nudge_lost()
    batches_nudge_lost()


@shared_task(name="workers.publish_manifest")
def publish_manifest() -> None:
    """Write down anew what inference workers serve, and delete counts of tenants that do not share them."""
    # Workers learn from the manifest whose fragments they count; what they counted until then goes with it.
    manifest_publish()
    counts_tidy()
