"""What Celery calls. A message is a nudge: it may come twice, late, or for a job that is gone."""

from uuid import UUID

from celery import shared_task

from versiontree.services.jobs import jobs_reap
from versiontree.serving import manifest_publish
from workers import runner


@shared_task(name="workers.run_job")
def run_job(job_id: str) -> None:
    """Run one job to its end."""
    runner.run_job(UUID(job_id))


@shared_task(name="workers.reap")
def reap() -> None:
    """Return jobs whose worker died to the queue, and nudge those whose message was lost."""
    jobs_reap()


@shared_task(name="workers.publish_manifest")
def publish_manifest() -> None:
    """Write down anew what inference workers serve."""
    manifest_publish()
