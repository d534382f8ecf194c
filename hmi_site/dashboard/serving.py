"""The inference workers, and which root which of them serve."""

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count
from django.template.defaultfilters import filesizeformat
from redis.exceptions import RedisError

from frontend.presenters.serving import WorkerRow, serving_tiles, worker_rows
from frontend.presenters.usage import Tile
from hmi_site.dashboard.work import Bar, Part
from inference.api.serving import Serving, serving_now
from inference.queueing.status import WorkerStatus
from versiontree.models import Hplm, Version
from versiontree.models.version import VersionKind, VersionState

LEVELS = (
    ("trigram", "tri-gram", "success"),
    ("bigram", "bi-gram", "info"),
    ("unigram", "uni-gram", "warning"),
    ("computed", "computed", "primary"),
)


@dataclass(frozen=True, slots=True)
class RootRow:
    """A root: the workers that take requests for it, the hPLMs below it, and what is outstanding."""

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


def tiles(serving: Serving) -> list[Tile]:
    """The figures of the serving page, then what is in memory."""
    workers = serving.workers
    resident, served = sum(one.resident for one in workers), sum(one.hplms for one in workers)
    pinned, there = sum(one.pinned for one in workers), sum(one.pinned_resident for one in workers)
    used, total = (
        sum(one.device_used_bytes for one in workers),
        sum(one.device_total_bytes for one in workers),
    )
    return [
        *serving_tiles(serving),
        Tile("hPLMs in memory", f"{resident:,}", f"of {served:,}" if served else ""),
        Tile("Pinned in memory", f"{there:,}", f"of {pinned:,}"),
        Tile("Slot mismatches", f"{sum(one.slot_mismatches for one in workers):,}", "must stay 0"),
        Tile("Workers' memory", filesizeformat(sum(one.host_bytes for one in workers))),
        Tile(
            "Device memory",
            filesizeformat(used) if total else "–",
            f"of {filesizeformat(total)}" if total else "on the CPU" if workers else "",
        ),
    ]


def levels_bar(workers: list[WorkerStatus]) -> tuple[Bar | None, list[tuple[str, str, str]]]:
    """How the fragments of the last half minute were answered, and its legend: level, colour, share. Nothing
    where there were none."""
    counts = {name: sum(getattr(one.recently.levels, name) for one in workers) for name, _, _ in LEVELS}
    total = sum(counts.values())
    if not total:
        return None, []
    legend = [(label, colour, f"{counts[name] / total:.1%}") for name, label, colour in LEVELS]
    parts = tuple(Part(counts[name] / total, colour) for name, _, colour in LEVELS if counts[name])
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


__all__ = ["RootRow", "WorkerRow", "levels_bar", "roots", "serving_or_none", "tiles", "worker_rows"]
