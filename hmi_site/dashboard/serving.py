"""Inference workers and the roots that they serve."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from django.db.models import Count
from redis.exceptions import RedisError

from frontend.presenters.charts import FRAGMENTS, Tile
from hmi_site.dashboard.work import Bar, ChartPart
from inference.api.serving import Serving, order, serving_now
from inference.queueing.status import WorkerStatus
from inference.queueing.worker_commands import DRAIN, REFRESH, RESUME
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.file_sizes import file_size
from versiontree.tree.models import Hplm, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.serving_manifest import manifest_publish


@dataclass(frozen=True, slots=True)
class RootRow:
    """A root: its ready workers, and its numbers of models, pinned models and outstanding requests."""

    pk: int
    name: str
    workers: tuple[str, ...]
    hplms: int
    pinned: int
    outstanding: int


def serving_or_none() -> Serving | None:
    """The state of serving. None if the queue cannot be reached."""
    try:
        return serving_now()
    except RedisError:
        return None


def memory_tiles(serving: Serving) -> list[Tile]:
    """Memory of the workers. Models are not summed, since several workers may serve the same one."""
    workers = serving.workers
    used, total = (
        sum(worker.device_used_bytes for worker in workers),
        sum(worker.device_total_bytes for worker in workers),
    )
    return [
        _min_resident_tile("Models in memory", [(worker.resident, worker.hplms) for worker in workers]),
        _min_resident_tile(
            "Pinned in memory", [(worker.pinned_resident, worker.pinned) for worker in workers]
        ),
        Tile("Integrity errors", f"{sum(worker.slot_mismatches for worker in workers):,}"),
        Tile("Workers' memory", file_size(sum(worker.host_bytes for worker in workers))),
        Tile(
            "Device memory",
            file_size(used) if total else "–",
            f"of {file_size(total)}" if total else "on the CPU" if workers else "",
        ),
    ]


def _min_resident_tile(name: str, held: list[tuple[int, int]]) -> Tile:
    """The tile of the worker with the smallest share of its models in memory."""
    resident, served = min(held, key=lambda pair: pair[0] / pair[1] if pair[1] else 1.0, default=(0, 0))
    where = " in the worker with the fewest" if len(held) > 1 else ""
    return Tile(name, f"{resident:,}", f"of {served:,}{where}" if served else "")


@dataclass(frozen=True, slots=True)
class LevelChart:
    """A bar of shares with a heading, and its legend: label, colour and share of each part."""

    heading: str
    bar: Bar
    legend: list[tuple[str, str, str]]


def level_charts(workers: list[WorkerStatus]) -> list[LevelChart]:
    """The charts of the last half minute: texts by how they were answered, and fragments by lookup level.

    A chart without texts or fragments is left out.
    """
    levels = [worker.recently.levels for worker in workers]
    escalated = sum(one.escalated_rows for one in levels)
    texts = [
        ("From the tables", "success", sum(one.table_rows for one in levels)),
        ("Tables, then computed", "info", escalated),
        # A text that goes on counts as computed later, which may be after the end of the window.
        ("Computed at once", "computed", max(0, sum(one.full_rows for one in levels) - escalated)),
    ]
    fragments = [
        (label, name, sum(getattr(one, name) for one in levels)) for name, label in FRAGMENTS.items()
    ]
    charts = [_level_chart("Texts", texts), _level_chart("Phrases", fragments)]
    return [chart for chart in charts if chart is not None]


def _level_chart(heading: str, counts: list[tuple[str, str, int]]) -> LevelChart | None:
    total = sum(count for _, _, count in counts)
    if not total:
        return None
    legend = [(label, colour, f"{count / total:.1%}") for label, colour, count in counts]
    parts = tuple(ChartPart(count / total, colour) for _, colour, count in counts if count)
    bar = Bar("", parts, ", ".join(f"{label} {share}" for label, _, share in legend))
    return LevelChart(heading, bar, legend)


def roots(serving: Serving | None) -> list[RootRow]:
    """All ready roots by name (three queries)."""
    workers = [worker for worker in serving.workers if worker.state == "ready"] if serving else []
    ready = Version.unscoped.filter(kind=VersionKind.ROOT, state=VersionState.READY)
    models = Version.unscoped.filter(kind=VersionKind.HPLM, number=1, hplm__deleted_at=None).order_by()
    hplms = Counter(dict(models.values_list("root").annotate(Count("pk"))))
    pinned_models = models.filter(hplm__in=Hplm.unscoped.filter(pinned_at__isnull=False))
    pinned = Counter(dict(pinned_models.values_list("root").annotate(Count("pk"))))
    outstanding = serving.by_root if serving else {}
    return [
        RootRow(
            pk,
            name,
            tuple(worker.name for worker in workers if digest in worker.root_digests),
            hplms[pk],
            pinned[pk],
            outstanding.get(digest, 0),
        )
        for pk, name, digest in ready.order_by("root__name").values_list("root", "root__name", "digest")
    ]


COMMANDS: Final = {DRAIN: "drained", RESUME: "taking requests again", REFRESH: "refreshed"}
"""The commands for workers, and the participle for messages."""


def worker_command(*, worker: str, command: str, actor: Actor) -> None:
    """Send a command to a worker.

    ``drain``: finish its requests and take no more; ``resume``; ``refresh``: publish and read the
    manifest, and retry failed loads. Raises ``not_found`` (unknown command or worker) and
    ``worker_unavailable`` (the queue cannot be reached).
    """
    if command not in COMMANDS:
        raise HmiError(ErrorCode.NOT_FOUND, f"Unknown command {command!r}.")
    if command == REFRESH:
        manifest_publish()
    try:
        acknowledged = order(worker, command)
    except RedisError as error:
        raise HmiError(ErrorCode.WORKER_UNAVAILABLE, "The queue cannot be reached.") from error
    if not acknowledged:
        raise HmiError(ErrorCode.NOT_FOUND, f"No inference worker {worker!r} responds.")
    audit_record(verb=f"worker.{command}", subject=worker, tenant=None, actor=actor)
