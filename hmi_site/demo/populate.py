"""A large installation to look at and to measure: many models like one that is there, each with numbers of
its own, written into the store and the database as fine-tuning would have left them."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Final

import torch
from django.conf import settings

from hmi_site.demo.registered import hplms_register
from hmi_site.demo.statistics import statistics_gather
from inference.hplm.hplm import Hplm as Model
from tenants.accounts.models import Tenant
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.tree.models import Hplm, Version
from versiontree.tree.serving_manifest import manifest_publish

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
