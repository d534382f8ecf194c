"""What the end of one job means for the jobs behind it and for its version."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from tenants.errors import ErrorCode, HmiError
from versiontree.artifacts import ArtifactDamaged, ArtifactStore, StoredArtifact
from versiontree.models import Alias, Artifact, Hplm, Job, Version, VersionArtifact
from versiontree.models.alias import DEFAULT_ALIAS
from versiontree.models.artifact import Role
from versiontree.models.job import JobState
from versiontree.models.version import MAIN_ROLE, REQUIRED_ROLES, VersionKind, VersionState
from versiontree.services.aliases import alias_point
from versiontree.services.attaching import attaching_begin
from versiontree.services.evaluations import evaluation_keep
from versiontree.services.nudges import job_nudge
from versiontree.services.transitions import job_move, version_move
from versiontree.serving import manifest_publish_on_commit


def artifacts_attach(
    *, version: Version, artifacts: Iterable[tuple[str, StoredArtifact]], job: Job | None = None
) -> None:
    """Write down which artifacts a job of this version made, while the collector of garbage stands still."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    attaching_begin()
    for role, stored in artifacts:
        if not store.path(stored.kind, stored.digest).is_dir():
            raise ArtifactDamaged(f"Artifact {stored.kind}/{stored.digest[:12]} is not in the store.")
        row, _ = Artifact.objects.get_or_create(
            kind=stored.kind,
            digest=stored.digest,
            defaults={"size": stored.size, "files": dict(stored.files)},
        )
        if role == Role.ANSWERS and job is not None:
            evaluation_keep(version=version, artifact=row, dataset=job.params["dataset"])
        else:
            VersionArtifact.unscoped.create(
                version=version, tenant_id=version.tenant_id, artifact=row, role=role
            )


def chain_advance(*, job: Job, version: Version) -> None:
    """After a success: queue the jobs that waited for this one; when none is left the version is ready."""
    for follower in Job.unscoped.filter(after=job, state=JobState.WAITING):
        if job_move(job_id=follower.pk, from_states=[JobState.WAITING], to=JobState.QUEUED):
            job_nudge(job_id=follower.pk, priority=follower.priority)
    if not Job.unscoped.filter(version=version).exclude(state=JobState.SUCCEEDED).exists():
        metrics = dict(Job.unscoped.filter(version=version).values_list("kind", "metrics"))
        version_finish(version=version, metrics=metrics)


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
    version_move(version_id=job.version_id, from_state=VersionState.BUILDING, to=VersionState.FAILED)


def chain_mend(*, job: Job) -> None:
    """After a retry: the jobs behind this one wait again; the version is being built again."""
    for follower in Job.unscoped.filter(after=job):
        if job_move(job_id=follower.pk, from_states=[JobState.CANCELLED], to=JobState.WAITING, attempt=0):
            chain_mend(job=follower)
    version_move(version_id=job.version_id, from_state=VersionState.FAILED, to=VersionState.BUILDING)


def version_finish(*, version: Version, metrics: Mapping[str, Any]) -> None:
    """A version that has its artifacts is ready: it has a digest, is served, and may become the default. The
    caller holds its hPLM."""
    kind = VersionKind(version.kind)
    digests = dict(VersionArtifact.unscoped.filter(version=version).values_list("role", "artifact__digest"))
    missing = REQUIRED_ROLES[kind] - digests.keys()
    if missing:
        raise HmiError(ErrorCode.INTERNAL, f"The jobs made no artifact for: {', '.join(sorted(missing))}.")
    became_ready = version_move(
        version_id=version.pk,
        from_state=VersionState.BUILDING,
        to=VersionState.READY,
        digest=digests[MAIN_ROLE[kind]],
        metrics=dict(metrics),
        ready_at=timezone.now(),
    )
    if became_ready and version.hplm is not None:
        _promote(version.hplm, version)
        manifest_publish_on_commit()


def _promote(hplm: Hplm, version: Version) -> None:
    """Point ``default`` at the new version, unless it points at a newer one or was told to stay."""
    current = Alias.unscoped.filter(hplm=hplm, name=DEFAULT_ALIAS).select_related("version").first()
    if current is None:
        alias_point(hplm=hplm, name=DEFAULT_ALIAS, version=version, actor=None, reason="First version")
    elif version.config.get("auto_promote", True) and current.version.number < version.number:
        alias_point(hplm=hplm, name=DEFAULT_ALIAS, version=version, actor=None, reason="New version")
