"""The inference workers, and which root which of them serve."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from django.db.models import Count
from django.template.defaultfilters import filesizeformat
from redis.exceptions import RedisError

from frontend.presenters.charts import LEVELS, Tile
from hmi_site.dashboard.work import Bar, ChartPart
from inference.api.serving import Serving, order, serving_now
from inference.queueing.asking import DRAIN, REFRESH, RESUME
from inference.queueing.status import WorkerStatus
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.models import Hplm, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.serving_manifest import manifest_publish


@dataclass(frozen=True, slots=True)
class RootRow:
    """A root: the workers that take requests for it, the models below it, and what is outstanding."""

    pk: int
    name: str
    workers: tuple[str, ...]
    hplms: int
    pinned: int
    outstanding: int


def serving_or_none() -> Serving | None:
    """How serving stands; None when the queue cannot be reached."""
    try:
        return serving_now()
    except RedisError:
        return None


def memory_tiles(serving: Serving) -> list[Tile]:
    """What the workers have in memory. Several may serve the same model: models are not added up over
    them."""
    workers = serving.workers
    used, total = (
        sum(one.device_used_bytes for one in workers),
        sum(one.device_total_bytes for one in workers),
    )
    return [
        _fewest("Models in memory", [(one.resident, one.hplms) for one in workers]),
        _fewest("Pinned in memory", [(one.pinned_resident, one.pinned) for one in workers]),
        Tile("Slot mismatches", f"{sum(one.slot_mismatches for one in workers):,}", "must stay 0"),
        Tile("Workers' memory", filesizeformat(sum(one.host_bytes for one in workers))),
        Tile(
            "Device memory",
            filesizeformat(used) if total else "–",
            f"of {filesizeformat(total)}" if total else "on the CPU" if workers else "",
        ),
    ]


def _fewest(name: str, held: list[tuple[int, int]]) -> Tile:
    """How many of those that it serves the worker has that has the smallest share of them."""
    there, served = min(held, key=lambda one: one[0] / one[1] if one[1] else 1.0, default=(0, 0))
    where = ", in the emptiest worker" if len(held) > 1 else ""
    return Tile(name, f"{there:,}", f"of {served:,}{where}" if served else "")


def levels_bar(workers: list[WorkerStatus]) -> tuple[Bar | None, list[tuple[str, str, str]]]:
    """How the fragments of the last half minute were answered, and its legend: level, colour, share. Nothing
    where there were none."""
    counts = {name: sum(getattr(one.recently.levels, name) for one in workers) for name in LEVELS}
    total = sum(counts.values())
    if not total:
        return None, []
    legend = [(label, name, f"{counts[name] / total:.1%}") for name, label in LEVELS.items()]
    parts = tuple(ChartPart(counts[name] / total, name) for name in LEVELS if counts[name])
    return Bar("", parts, ", ".join(f"{label} {share}" for label, _, share in legend)), legend


def roots(serving: Serving | None) -> list[RootRow]:
    """All roots that can be served, by name; three queries."""
    workers = [one for one in serving.workers if one.state == "ready"] if serving else []
    ready = Version.unscoped.filter(kind=VersionKind.ROOT, state=VersionState.READY)
    living = Version.unscoped.filter(kind=VersionKind.HPLM, number=1, hplm__deleted_at=None).order_by()
    hplms = Counter(dict(living.values_list("root").annotate(Count("pk"))))
    fixed = living.filter(hplm__in=Hplm.unscoped.filter(pinned_at__isnull=False))
    pinned = Counter(dict(fixed.values_list("root").annotate(Count("pk"))))
    outstanding = serving.by_root if serving else {}
    return [
        RootRow(
            pk,
            name,
            tuple(one.name for one in workers if digest in one.root_digests),
            hplms[pk],
            pinned[pk],
            outstanding.get(digest, 0),
        )
        for pk, name, digest in ready.order_by("root__name").values_list("root", "root__name", "digest")
    ]


ORDERS: Final = {DRAIN: "drained", RESUME: "taking requests again", REFRESH: "refreshed"}
"""What a worker can be told, and what it is then."""


def worker_order(*, worker: str, what: str, actor: Actor) -> None:
    """Have a worker ``drain`` (answer what it has, and take no more), ``resume``, or ``refresh`` (read the
    manifest, which is written anew before, and try again what could not be loaded).

    Raises ``not_found`` (no such order, or no such worker answers), ``worker_unavailable`` when the queue
    cannot be reached.
    """
    if what not in ORDERS:
        raise HmiError(ErrorCode.NOT_FOUND, f"Workers do not know the order {what!r}.")
    if what == REFRESH:
        manifest_publish()
    try:
        obeyed = order(worker, what)
    except RedisError as error:
        raise HmiError(ErrorCode.WORKER_UNAVAILABLE, "The queue cannot be reached.") from error
    if not obeyed:
        raise HmiError(ErrorCode.NOT_FOUND, f"No inference worker called {worker!r} answers.")
    audit_record(verb=f"worker.{what}", subject=worker, tenant=None, actor=actor)
