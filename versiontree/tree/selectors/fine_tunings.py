"""Fine-tuning jobs of the OpenAI API: their status, jobs, events and training curve."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.base.errors import require_found
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import FineTuning, FineTuningState, Hplm, Version
from versiontree.tree.models.version import VersionState

VALIDATING: Final = "validating_files"
QUEUED, RUNNING = "queued", "running"
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
STATUSES: Final = (VALIDATING, QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED)
ENDED: Final = (SUCCEEDED, FAILED, CANCELLED)
BUILT: Final = (VersionState.READY, VersionState.RETIRED)
METRICS: Final = "metrics"


@dataclass(frozen=True, slots=True)
class FineTuningStatus:
    """The status of a fine-tuning, one of ``STATUSES``, as the OpenAI API names them."""

    status: str
    finished_at: datetime | None = None
    expected_at: datetime | None = None
    error: dict[str, Any] | None = None


def fine_tunings_of(tenant: Tenant) -> QuerySet[FineTuning]:
    """The tenant's fine-tunings, with their versions and jobs."""
    rows = FineTuning.objects.for_tenant(tenant).select_related("tenant", "version__hplm__tenant")
    return rows.prefetch_related("version__jobs")


def fine_tuning_of(tenant: Tenant, key: UUID) -> FineTuning:
    """The tenant's fine-tuning with this id, or ``not_found``."""
    row = fine_tunings_of(tenant).filter(pk=key).first()
    return require_found(row, "fine-tuning job", param="fine_tuning_job_id")


def fine_tunings_with_results(tenant: Tenant) -> QuerySet[FineTuning]:
    """The tenant's fine-tunings that succeeded and whose results were not deleted."""
    return fine_tunings_of(tenant).filter(version__state__in=BUILT, results_deleted_at=None)


def fine_tunings_running(hplm: Hplm) -> list[FineTuning]:
    """The fine-tunings whose version of this model is queued or being built."""
    found = fine_tunings_of(hplm.tenant).filter(version__hplm=hplm)
    return [
        fine_tuning for fine_tuning in found if fine_tuning_status(fine_tuning).status in (QUEUED, RUNNING)
    ]


def training_events(fine_tuning: FineTuning) -> QuerySet[JobEvent]:
    """The events of its jobs, newest first."""
    return JobEvent.unscoped.filter(job__in=fine_tuning_jobs(fine_tuning)).order_by("-pk")


def training_curve(fine_tuning: FineTuning) -> list[dict[str, Any]]:
    """The metrics that its training reported, oldest first."""
    jobs = [job for job in fine_tuning_jobs(fine_tuning) if job.kind == JobKind.FINE_TUNE]
    events = JobEvent.unscoped.filter(job__in=jobs, kind=METRICS).order_by("pk")
    return list(events.values_list("data", flat=True))


def fine_tuning_jobs(fine_tuning: FineTuning) -> list[Job]:
    """The two jobs that built its version, in order, without later evaluations."""
    version: Version | None = fine_tuning.version
    return sorted(version.jobs.all(), key=lambda job: job.created_at)[:2] if version else []


def fine_tuning_status(fine_tuning: FineTuning) -> FineTuningStatus:
    """The status of a fine-tuning, from its own state or that of its version's jobs."""
    version = fine_tuning.version
    if version is None:
        return FineTuningStatus(
            _STATUS_WITHOUT_VERSION[FineTuningState(fine_tuning.state)],
            fine_tuning.finished_at,
            None,
            _error(fine_tuning),
        )
    if version.state in BUILT:
        return FineTuningStatus(SUCCEEDED, version.ready_at)
    jobs = fine_tuning_jobs(fine_tuning)
    ended = max((job.finished_at for job in jobs if job.finished_at), default=None)
    failed = next((job for job in jobs if job.state == JobState.FAILED), None)
    if failed is not None:
        error = {"code": failed.error_code, "message": failed.error_message, "param": None}
        return FineTuningStatus(FAILED, ended, None, error)
    if any(job.state == JobState.CANCELLED for job in jobs):
        return FineTuningStatus(CANCELLED, ended)
    running = next((job for job in jobs if job.state == JobState.RUNNING), None)
    if running is not None or any(job.state == JobState.SUCCEEDED for job in jobs):
        return FineTuningStatus(RUNNING, None, running.expected_at if running else None)
    return FineTuningStatus(QUEUED)


_STATUS_WITHOUT_VERSION: Final = {
    FineTuningState.VALIDATING: VALIDATING,
    FineTuningState.FAILED: FAILED,
    FineTuningState.CANCELLED: CANCELLED,
}


def _error(fine_tuning: FineTuning) -> dict[str, Any] | None:
    error = fine_tuning.error
    return {name: error.get(name) for name in ("code", "message", "param")} if error else None
