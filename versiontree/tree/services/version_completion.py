"""Complete versions when their jobs end: attach artifacts, mark them ready or failed, promote, retry."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor
from tenants.base.errors import ErrorCode, HmiError, not_found
from versiontree.artifact_store import ArtifactDamaged, ArtifactStore, StoredArtifact
from versiontree.jobs.hooks import JobOwner
from versiontree.jobs.models import Job, JobKind, JobState
from versiontree.jobs.services.control import RETRYABLE, job_retry
from versiontree.jobs.services.notices import notice_create
from versiontree.tree.models import Artifact, Hplm, RootKind, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import MAIN_ROLE, REQUIRED_ROLES, Version, VersionKind, VersionState
from versiontree.tree.promotion import promotion_decision, promotion_pending
from versiontree.tree.selectors.versions import default_of
from versiontree.tree.services.aliases import alias_point
from versiontree.tree.services.evaluations import evaluation_record
from versiontree.tree.services.garbage_collection import artifact_refs_lock
from versiontree.tree.services.quota_reservations import quota_reserve_jobs
from versiontree.tree.services.rebases import rebases_due_on_commit
from versiontree.tree.services.versions import version_lock, version_transition
from versiontree.tree.services.webhook_notifications import job_notify
from versiontree.tree.serving_manifest import manifest_publish_on_commit


def artifacts_attach(
    *, version: Version, artifacts: Iterable[tuple[str, StoredArtifact]], job: Job | None = None
) -> None:
    """Attach artifacts to a version, under the lock that keeps the garbage collector out."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    artifact_refs_lock()
    for role, stored in artifacts:
        if not store.path(stored.kind, stored.digest).is_dir():
            raise ArtifactDamaged(f"Artifact {stored.kind}/{stored.digest[:12]} is not in the store.")
        row, _ = Artifact.objects.get_or_create(
            kind=stored.kind,
            digest=stored.digest,
            defaults={"size": stored.size, "files": dict(stored.files)},
        )
        if role == Role.ANSWERS and job is not None:
            evaluation_record(version=version, artifact=row, dataset=job.params["dataset"])
        else:
            VersionArtifact.unscoped.create(
                version=version, tenant_id=version.tenant_id, artifact=row, role=role
            )


def version_finish(*, version: Version, metrics: Mapping[str, Any]) -> None:
    """Mark a version with its artifacts as ready. Of a model: serve it, and perhaps point ``default`` at it.
    Of a domain or root: models may follow it.

    The caller holds the lock on its model.
    """
    kind = VersionKind(version.kind)
    digests = dict(VersionArtifact.unscoped.filter(version=version).values_list("role", "artifact__digest"))
    missing = REQUIRED_ROLES[RootKind(version.root.kind)][kind] - digests.keys()
    if missing:
        raise HmiError(
            ErrorCode.INTERNAL, f"The jobs made no artifact of the roles: {', '.join(sorted(missing))}."
        )
    became_ready = version_transition(
        version_id=version.pk,
        from_state=VersionState.BUILDING,
        to=VersionState.READY,
        digest=digests[MAIN_ROLE[kind]],
        metrics=dict(metrics),
        ready_at=timezone.now(),
    )
    if became_ready and version.hplm is None:
        rebases_due_on_commit()
    elif became_ready and version.hplm is not None:
        version.metrics = dict(metrics)
        _promote(version.hplm, version)
        manifest_publish_on_commit()


def _promote(hplm: Hplm, version: Version) -> None:
    """Point ``default`` at the new version if ``promotion_decision`` says so, unless it points at a newer one
    or ``auto_promote`` is off."""
    current = default_of(version)
    wanted = version.config.get("auto_promote", True)
    if current is not None and (not wanted or current.number > version.number):
        return
    decision = promotion_decision(version, current)
    if decision.moves:
        alias_point(hplm=hplm, name=DEFAULT_ALIAS, version=version, actor=None, reason=decision.reason)


@transaction.atomic
def version_retry(*, version: Version, actor: Actor) -> Job:
    """Retry the first job of a version that failed or was cancelled, and with it the rest of the chain.

    Raises ``invalid_transition`` if there is none, and what ``job_retry`` raises.
    """
    jobs = Job.unscoped.filter(version=version).select_related("version", "tenant").order_by("created_at")
    job = jobs.filter(state__in=RETRYABLE).first()
    if job is None:
        raise HmiError(ErrorCode.INVALID_TRANSITION, f"No job of {version} failed or was canceled.")
    return job_retry(job=job, actor=actor)


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
