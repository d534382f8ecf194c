"""Celery tasks of jobs that need no PyTorch."""

from uuid import UUID

from celery import shared_task

from versiontree.jobs.services.notices import SEND_NOTICE_TASK, notice_send


@shared_task(name=SEND_NOTICE_TASK)
def send_notice(job_id: str) -> None:
    """Send the e-mail about the end of a job."""
    notice_send(job_id=UUID(job_id))
