"""The chain of jobs that build one version: what the end of one means for those behind it and for the
version."""

from tenants.base.errors import ErrorCode
from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models import Job
from versiontree.jobs.models.job import JobState
from versiontree.jobs.services.dispatch import job_dispatch
from versiontree.jobs.services.transitions import job_move


def chain_advance(*, job: Job) -> None:
    """After a success: queue the jobs that waited for this one; when none is left the version is finished."""
    for follower in Job.unscoped.filter(after=job, state=JobState.WAITING):
        if job_move(job_id=follower.pk, from_states=[JobState.WAITING], to=JobState.QUEUED):
            job_dispatch(job_id=follower.pk, priority=follower.priority)
    of_version = Job.unscoped.filter(version=job.version_id)
    if not of_version.exclude(state=JobState.SUCCEEDED).exists():
        metrics = dict(of_version.values_list("kind", "metrics"))
        job_owner().finish(version_id=job.version_id, metrics=metrics)


def chain_break(*, job: Job, reason: str) -> None:
    """After a failure or a cancel: cancel the jobs that waited for this one; the version has failed."""
    for follower in Job.unscoped.filter(after=job):
        cancelled = job_move(
            job_id=follower.pk,
            from_states=[JobState.WAITING],
            to=JobState.CANCELLED,
            message=reason,
            error_code=ErrorCode.JOB_CANCELLED,
            error_message=reason,
        )
        if cancelled:
            chain_break(job=follower, reason=reason)
    job_owner().fail(version_id=job.version_id)


def chain_reset(*, job: Job) -> None:
    """After a retry: the jobs behind this one wait again; the version is being built again."""
    for follower in Job.unscoped.filter(after=job):
        if job_move(job_id=follower.pk, from_states=[JobState.CANCELLED], to=JobState.WAITING, attempt=0):
            chain_reset(job=follower)
    job_owner().reopen(version_id=job.version_id)
