"""What a queued job says while a worker has it in hand and cannot begin it yet."""

from typing import Final
from uuid import UUID

from versiontree.jobs.models import Job
from versiontree.jobs.models.job import JobState

WAITING_FOR_TURN: Final = "waiting for another job on this machine"


def job_set_waiting(*, job_id: UUID) -> bool:
    """Say so on the job's row; False when it is no longer queued, so that there is nothing to wait for."""
    queued = Job.unscoped.filter(pk=job_id, state=JobState.QUEUED)
    return bool(queued.update(stage=WAITING_FOR_TURN))
