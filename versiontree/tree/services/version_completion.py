"""Complete versions: attach artifacts, mark them ready, promote, retry."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor
from tenants.base.errors import ErrorCode, HmiError
from versiontree.artifact_store import ArtifactDamaged, ArtifactStore, StoredArtifact
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import RETRYABLE, job_retry
from versiontree.tree.models import Artifact, Hplm, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import MAIN_ROLE, Version, VersionKind, VersionState
from versiontree.tree.promotion import promotion_decision
from versiontree.tree.selectors.versions import default_of
from versiontree.tree.services.aliases import alias_point
from versiontree.tree.services.evaluations import evaluation_record
from versiontree.tree.services.garbage_collection import artifact_refs_lock
from versiontree.tree.services.rebase_tasks import rebases_due_on_commit
from versiontree.tree.services.versions import version_transition
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


def stored_artifact(artifact: Artifact) -> StoredArtifact:
    """An artifact of another version, to attach to one more."""
    return StoredArtifact(artifact.kind, artifact.digest, artifact.size, artifact.files)


def version_finish(*, version: Version, metrics: Mapping[str, Any]) -> None:
    """Mark a version with its artifacts as ready. Of a model: serve it, and perhaps point ``default`` at it.
    Of a domain or root: models may follow it.

    The caller holds the lock on its model.
    """
    kind = VersionKind(version.kind)
    digests = dict(VersionArtifact.unscoped.filter(version=version).values_list("role", "artifact__digest"))
    missing = version.required_roles - digests.keys()
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
