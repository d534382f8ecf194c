"""Compare-and-set: whoever updates exactly one row owns the next step. The event goes in with it."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from versiontree.jobs.hooks import job_owner
from versiontree.jobs.models.job import LEGAL, TERMINAL, Job, JobEvent, JobState

_FORGET_ERROR = {"error_code": "", "error_message": "", "traceback": ""}


_START_OVER = {"stage": "", "progress": 0.0, "eta_seconds": None, "metrics": {}}


def job_move(
    *,
    job_id: UUID | str,
    from_states: Iterable[JobState],
    to: JobState,
    where: Q | None = None,
    message: str = "",
    data: dict[str, Any] | None = None,
    **changes: Any,
) -> bool:
    """Move a job from one of these states to another, with the event; False when it was in none of them.

    ``changes`` are further columns. Call it inside a transaction. An illegal pair of states is our own
    mistake.
    """
    states = list(from_states)
    if any(to not in LEGAL[state] for state in states):
        raise ValueError(f"illegal job transition {states} -> {to}")
    rows = Job.unscoped.filter(where or Q(), pk=job_id, state__in=states)
    if not rows.update(state=to, **(_on_entering(to) | changes)):
        return False
    JobEvent.unscoped.create(job_id=job_id, kind=to.value, message=message, data=data or {})
    job_owner().notify(job_id=job_id, state=to)
    return True


def _on_entering(state: JobState) -> dict[str, Any]:
    now = timezone.now()
    if state == JobState.RUNNING:
        return {"started_at": now, "finished_at": None, **_START_OVER}
    if state in TERMINAL:
        return {"lease_until": None, "finished_at": now, "eta_seconds": None}
    changes: dict[str, Any] = {
        "lease_until": None,
        "worker": "",
        "cancel_requested_at": None,
        "finished_at": None,
        **_START_OVER,
        **_FORGET_ERROR,
    }
    if state == JobState.QUEUED:
        changes |= {"queued_at": now, "nudged_at": now, "nudges": 0}
    return changes
