"""A large installation to look at and to measure: many hPLMs like one that is there, each with numbers of its
own, written into the store and the database as fine-tuning would have left them."""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import torch
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inference.hplm.hplm import Hplm as Model
from tenants.models import Tenant
from versiontree.artifacts import ArtifactStore, StoredArtifact
from versiontree.models import Alias, AliasMove, Artifact, Hplm, Version, VersionArtifact
from versiontree.models.alias import DEFAULT_ALIAS
from versiontree.models.artifact import Role
from versiontree.models.version import VersionKind, VersionState
from versiontree.services.attaching import attaching_begin
from versiontree.serving import manifest_publish

AT_ONCE: Final = 250
NOISE: Final = 0.01
REASON: Final = "Populated"


def populate(
    *, like: Version, tenants: Sequence[Tenant], count: int, progress: Callable[[int], None] = lambda _: None
) -> None:
    """Register ``count`` ready hPLMs like the ready version ``like``, shared out over ``tenants`` in turn,
    and tell the inference workers. ``progress`` hears how many there are so far.

    Names go on from what is there (``like``'s name, a hyphen, a number), so that it may be repeated. Quotas
    are not asked. No two have the same weights.
    """
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    first = Hplm.unscoped.filter(name__regex=rf"^{like.name}-\d+$").count()
    serials = iter(range(first, first + count))
    done = 0
    while some := list(islice(serials, AT_ONCE)):
        made = [_stored(store, like, serial) for serial in some]
        owners = [tenants[serial % len(tenants)] for serial in some]
        names = [f"{like.name}-{serial + 1:05}" for serial in some]
        _register(like, owners, names, made)
        done += len(some)
        progress(done)
    manifest_publish()


def _stored(store: ArtifactStore, like: Version, serial: int) -> StoredArtifact:
    """The hPLM of that number: the model's numbers, and some noise."""
    model = Model.load(store.path("hplm", like.digest))
    draw = torch.Generator().manual_seed(serial)
    for value in [*model.pet.weights.values(), model.head.weight, model.head.bias]:
        value += NOISE * torch.randn(value.shape, generator=draw)
    with store.workspace("hplm") as folder:
        model.save(folder / "hplm")
        return store.ingest("hplm", folder / "hplm")


@transaction.atomic
def _register(
    like: Version, owners: Sequence[Tenant], names: Sequence[str], made: Sequence[StoredArtifact]
) -> None:
    """A version of each new hPLM, ready and the default."""
    now = timezone.now()
    attaching_begin()
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
        )
        for hplm in hplms
    )
    artifacts = Artifact.objects.bulk_create(
        Artifact(kind=one.kind, digest=one.digest, size=one.size, files=dict(one.files)) for one in made
    )
    VersionArtifact.unscoped.bulk_create(
        VersionArtifact(version=version, artifact=artifact, role=Role.HPLM)
        for version, artifact in zip(versions, artifacts, strict=True)
    )
    for version, artifact in zip(versions, artifacts, strict=True):
        version.state, version.digest, version.ready_at = VersionState.READY, artifact.digest, now
        version.metrics = like.metrics
    Version.unscoped.bulk_update(versions, ["state", "digest", "ready_at", "metrics"])
    Alias.unscoped.bulk_create(
        Alias(hplm=version.hplm, name=DEFAULT_ALIAS, version=version, moved_at=now) for version in versions
    )
    AliasMove.unscoped.bulk_create(
        AliasMove(hplm=version.hplm, name=DEFAULT_ALIAS, to_version=version, reason=REASON, moved_at=now)
        for version in versions
    )
