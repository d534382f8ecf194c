"""Rows of models that nobody trained here, as their jobs would have left them."""

from collections.abc import Sequence
from typing import Final

from django.db import transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from tenants.accounts.models import Tenant
from versiontree.artifact_store import StoredArtifact
from versiontree.tree.models import Alias, AliasMove, Artifact, Hplm, Version, VersionArtifact
from versiontree.tree.models.alias import DEFAULT_ALIAS
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.services.artifact_refs import artifact_refs_lock

REASON: Final = "Populated"


@transaction.atomic
def hplms_register(
    like: Version, owners: Sequence[Tenant], names: Sequence[str], made: Sequence[StoredArtifact]
) -> None:
    """A model of each of these owners, names and artifacts: one version, ready and the default, with the
    parent, configuration and metrics of the version ``like``."""
    now = timezone.now()
    artifact_refs_lock()
    assert like.hplm is not None
    task = like.hplm.task
    hplms = Hplm.unscoped.bulk_create(
        Hplm(tenant=owner, name=name, task=task) for owner, name in zip(owners, names, strict=True)
    )
    versions = Version.unscoped.bulk_create(
        Version(
            parent_id=like.parent_id,
            kind=VersionKind.HPLM,
            root_id=like.root_id,
            hplm=hplm,
            tenant_id=hplm.tenant_id,
            number=1,
            config=like.config,
            metrics=like.metrics,
        )
        for hplm in hplms
    )
    artifacts = Artifact.objects.bulk_create(
        Artifact(kind=one.kind, digest=one.digest, size=one.size, files=dict(one.files)) for one in made
    )
    VersionArtifact.unscoped.bulk_create(
        VersionArtifact(version=version, tenant_id=version.tenant_id, artifact=artifact, role=Role.HPLM)
        for version, artifact in zip(versions, artifacts, strict=True)
    )
    digest = VersionArtifact.unscoped.filter(version=OuterRef("pk")).values("artifact__digest")
    Version.unscoped.filter(pk__in=[version.pk for version in versions]).update(
        state=VersionState.READY, digest=Subquery(digest), ready_at=now
    )
    Alias.unscoped.bulk_create(
        Alias(hplm=version.hplm, name=DEFAULT_ALIAS, version=version, moved_at=now) for version in versions
    )
    AliasMove.unscoped.bulk_create(
        AliasMove(hplm=version.hplm, name=DEFAULT_ALIAS, to_version=version, reason=REASON, moved_at=now)
        for version in versions
    )
