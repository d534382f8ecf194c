"""Rows of models that nobody trained here, as their jobs would have left them."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Final

import torch
from django.conf import settings
from django.db import connection, transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from inference.hplm.hplm import Hplm as Model
from tenants.accounts.models import Tenant
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.tree.models import Alias, AliasMove, Artifact, Hplm, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.services.garbage_collection import artifact_refs_lock
from versiontree.tree.serving_manifest import manifest_publish


def statistics_gather() -> None:
    """Let PostgreSQL know how many rows there are. By itself it looks a minute later, and does not see those
    of an open transaction; until then it takes a table that was just filled for empty, and a search of it may
    take seconds."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


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


AT_ONCE: Final = 250


NOISE: Final = 0.01


def populate(
    *, like: Version, tenants: Sequence[Tenant], count: int, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Register ``count`` ready models like the ready version ``like``, shared out over ``tenants`` in turn,
    and tell the inference workers. ``progress`` hears how many there are so far.

    Names go on from what is there (``like``'s name, a hyphen, a number), so that it may be repeated. Quotas
    are not asked. No two have the same weights.
    """
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    model = Model.load(store.path("hplm", like.digest))
    first = Hplm.unscoped.filter(name__regex=copies_of(like)).count()
    serials = iter(range(first, first + count))
    done = 0
    while some := list(islice(serials, AT_ONCE)):
        made = [_stored(store, model, serial) for serial in some]
        owners = [tenants[serial % len(tenants)] for serial in some]
        names = [f"{like.name}-{serial + 1:05}" for serial in some]
        hplms_register(like, owners, names, made)
        done += len(some)
        progress(done)
    statistics_gather()
    manifest_publish()


def copies_of(like: Version) -> str:
    """What the names of such models match, as a regular expression."""
    return rf"^{like.name}-\d+$"


def _stored(store: ArtifactStore, like: Model, serial: int) -> StoredArtifact:
    """The copy of that number: the numbers of ``like``, and some noise."""
    model, draw = deepcopy(like), torch.Generator().manual_seed(serial)
    for value in [*model.pet.weights.values(), model.head.weight, model.head.bias]:
        value += NOISE * torch.randn(value.shape, generator=draw)
    with store.workspace("hplm") as folder:
        model.save(folder / "hplm")
        return store.ingest("hplm", folder / "hplm")
