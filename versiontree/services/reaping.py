"""What heals by itself: jobs whose worker died, and queued jobs whose message was lost."""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from tenants.errors import ErrorCode
from versiontree.artifacts import ArtifactStore
from versiontree.models import Job
from versiontree.models.job import JobState
from versiontree.services.chain import chain_break
from versiontree.services.nudges import job_nudge
from versiontree.services.transitions import job_move, version_lock

log = logging.getLogger(__name__)

NUDGE_AGAIN_S: Final = 10.0
NUDGE_AGAIN_AT_MOST_S: Final = 300.0
STALE_WORKSPACE_S: Final = 24 * 3600.0


@dataclass(slots=True)
class ReapReport:
    """How many jobs one round put back, failed, cancelled and nudged."""

    requeued: int = 0
    failed: int = 0
    cancelled: int = 0
    nudged: int = 0


def jobs_reap() -> ReapReport:
    """One round: end leases that ran out, nudge queued jobs that nobody took, remove forgotten workspaces."""
    report = ReapReport()
    now = timezone.now()
    expired = Job.unscoped.filter(state=JobState.RUNNING, lease_until__lt=now)
    for job in expired.only("pk", "version_id"):
        _end_lease(job.pk, job.version_id, now, report)
    quiet = Job.unscoped.filter(state=JobState.QUEUED, nudged_at__lt=now - timedelta(seconds=NUDGE_AGAIN_S))
    for job in quiet.only("pk", "priority", "nudges", "nudged_at"):
        report.nudged += _nudge_again(job, now)
    ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).sweep(older_than_s=STALE_WORKSPACE_S)
    return report


@transaction.atomic
def _end_lease(job_id: UUID, version_id: int, now: datetime, report: ReapReport) -> None:
    version_lock(version_id=version_id)
    job = Job.unscoped.get(pk=job_id)
    expired = Q(lease_until__lt=now, worker=job.worker)
    if job.cancel_requested_at is not None:
        to, message, code = JobState.CANCELLED, "Cancelled.", ErrorCode.JOB_CANCELLED
    elif job.attempt >= job.max_attempts:
        message = f"The worker was lost {job.attempt} times in a row, so the job was given up."
        to, code = JobState.FAILED, ErrorCode.JOB_CRASHED
    else:
        to, message, code = JobState.QUEUED, "The worker was lost; the job starts again.", None
    changes = {"error_code": code, "error_message": message} if code else {}
    if not job_move(
        job_id=job_id,
        from_states=[JobState.RUNNING],
        to=to,
        where=expired,
        message=message,
        data={"worker": job.worker, "attempt": job.attempt},
        **changes,
    ):
        return
    log.warning("Job %s: the lease of %s ran out; now %s", job_id, job.worker, to)
    if to == JobState.QUEUED:
        report.requeued += 1
        job_nudge(job_id=job_id, priority=job.priority)
        return
    report.cancelled += to == JobState.CANCELLED
    report.failed += to == JobState.FAILED
    chain_break(job=job, reason=f"{job.get_kind_display()} {to.label.lower()}.")


@transaction.atomic
def _nudge_again(job: Job, now: datetime) -> bool:
    """A message may be lost, or wait behind long jobs: the pause doubles each time, up to five minutes."""
    pause = min(NUDGE_AGAIN_S * 2 ** min(job.nudges, 10), NUDGE_AGAIN_AT_MOST_S)
    if job.nudged_at is None or (now - job.nudged_at).total_seconds() < pause:
        return False
    mine = Job.unscoped.filter(pk=job.pk, state=JobState.QUEUED, nudged_at=job.nudged_at)
    if not mine.update(nudged_at=now, nudges=F("nudges") + 1):
        return False
    job_nudge(job_id=job.pk, priority=job.priority)
    return True
