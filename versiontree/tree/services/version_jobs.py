"""What jobs do to the version that they build: attach artifacts, mark it ready or failed, and notify."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tenants.base.errors import ErrorCode, HmiError, not_found
from versiontree.artifact_store import StoredArtifact
from versiontree.jobs.hooks import JobOwner
from versiontree.jobs.models import Job, JobKind, JobState
from versiontree.jobs.services.notices import notice_create
from versiontree.tree.models import Hplm
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import Version, VersionState
from versiontree.tree.promotion import promotion_pending
from versiontree.tree.selectors.versions import default_of
from versiontree.tree.services.first_models import first_model_create
from versiontree.tree.services.quota_reservations import quota_reserve_jobs
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import version_lock, version_transition
from versiontree.tree.services.webhook_notifications import job_notify


class VersionJobs(JobOwner):
    """The callbacks of jobs on their version (``versiontree.jobs.hooks``)."""

    def lock(self, *, version_id: int | None) -> None:
        if version_id is not None:
            version_lock(version_id=version_id)

    def lock_to_finish(self, *, version_id: int | None) -> None:
        if version_id is None:
            return
        # The last job may move the default alias of its model.
        Hplm.unscoped.select_for_update(no_key=True, of=("self",)).filter(versions=version_id).first()
        version_lock(version_id=version_id)

    def attach(self, *, job: Job, artifacts: Sequence[tuple[str, StoredArtifact]]) -> None:
        artifacts_attach(version=job.version, artifacts=artifacts, job=job)

    def finish(self, *, version_id: int, metrics: Mapping[str, Any]) -> None:
        version = Version.unscoped.select_related("hplm", "root").get(pk=version_id)
        # The job of a quick version reports as the jobs of a trained one do, one after the other.
        version_finish(version=version, metrics={**metrics, **metrics.get(JobKind.QUICK, {})})
        first_model_create(version=version, report=metrics.get(JobKind.CONVERT, {}))

    def fail(self, *, version_id: int) -> None:
        version_transition(version_id=version_id, from_state=VersionState.BUILDING, to=VersionState.FAILED)

    def check_retry(self, *, job: Job, jobs: int) -> None:
        if job.kind == JobKind.COMPACT and "plots" not in job.params:  # it grew a table, before migration
            raise HmiError(
                ErrorCode.INVALID_TRANSITION,
                "This job added fragments from traffic to a table, which is no longer possible. Update or"
                " compact the domain instead.",
                param="job",
            )
        quota_reserve_jobs(tenant=job.tenant, adding=jobs)
        if (hplm_id := job.version.hplm_id) is None:
            return
        living = Hplm.unscoped.select_for_update(no_key=True).filter(pk=hplm_id, deleted_at=None)
        if not living.exists():
            raise not_found("model", param="model")

    def reopen(self, *, version_id: int) -> None:
        version_transition(version_id=version_id, from_state=VersionState.FAILED, to=VersionState.BUILDING)

    def ready_note(self, *, version_id: int) -> str:
        version = Version.unscoped.select_related("hplm").get(pk=version_id)
        decision = promotion_pending(version, default_of(version))
        if decision is None:
            return ""
        return f"@{DEFAULT_ALIAS} was not moved to it: {decision.reason} You can promote it all the same."

    def notify(self, *, job_id: UUID | str, state: JobState) -> None:
        # Whoever waits for a model waits for the trained version. That the quick one answers is the news of
        # an alias.
        if not Job.unscoped.filter(pk=job_id, kind=JobKind.QUICK).exists():
            job_notify(job_id=job_id, state=state)
            notice_create(job_id=job_id, state=state)
