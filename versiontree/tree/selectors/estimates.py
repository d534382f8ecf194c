"""Estimates of the time, storage and queue wait of a model or domain before it is created.

They are the median and the range of what past jobs of the same kinds took below the same root.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from django.db.models import Sum

from tenants.accounts.models import Tenant
from tenants.base.scope import platform_scope
from versiontree.jobs.models import Job, JobKind
from versiontree.jobs.selectors import QueuePosition, queue_position
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.past_jobs import HISTORY_LIMIT, EstimateRange, past_durations, visible_values
from versiontree.tree.selectors.versions import as_mapping

HPLM_JOBS: Final = (JobKind.FINE_TUNE, JobKind.EVALUATE)
DOMAIN_JOBS: Final = (JobKind.FURTHER_PRETRAIN, JobKind.BUILD_PLOT)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a model or a domain.

    ``seconds`` is None without a past job of one of its kinds below the root that the viewer may see.
    ``past_jobs`` is the number of past trainings that it is based on. ``storage_bytes`` is the median of past
    models or domains of the root, None if the viewer may see none. ``quick_seconds`` are those of a model's
    quick version, None where there are no past ones.
    """

    seconds: EstimateRange | None
    past_jobs: int
    storage_bytes: int | None
    queue: QueuePosition
    quick_seconds: EstimateRange | None = None

    @property
    def until_ready(self) -> EstimateRange | None:
        """``seconds`` after the wait in the queue, without the wait if that is unknown."""
        if self.seconds is None:
            return None
        return EstimateRange.exactly(self.queue.wait_s or 0.0) + self.seconds


def hplm_estimate(parent: Version, *, viewer: Tenant) -> Estimate:
    """The estimate of fine-tuning a model of the viewer on this parent and evaluating it."""
    kinds = (*HPLM_JOBS, JobKind.QUICK)
    past = past_durations(parent.root_id, VersionKind.HPLM, kinds, viewer=viewer.pk)
    train, evaluate, quick = (past[kind] for kind in kinds)
    return Estimate(
        seconds=_sum(EstimateRange.of(train), EstimateRange.of(evaluate)),
        past_jobs=len(train),
        storage_bytes=_median_bytes(parent.root_id, VersionKind.HPLM, viewer=viewer.pk),
        queue=queue_position(),
        quick_seconds=EstimateRange.of(quick),
    )


def domain_estimate(parent: Version, *, settings: Mapping[str, Any], viewer: Tenant | None) -> Estimate:
    """The estimate of pretraining a domain on this parent and building its table.

    Pretraining takes the ``minutes`` of the settings, if they are set. ``viewer`` None is the platform.
    """
    viewer_id = viewer.pk if viewer else None
    past = past_durations(parent.root_id, VersionKind.DOMAIN, DOMAIN_JOBS, viewer=viewer_id)
    train, build = (past[kind] for kind in DOMAIN_JOBS)
    training = _limited_by_minutes(settings, EstimateRange.of(train))
    return Estimate(
        seconds=_sum(training, EstimateRange.of(build)),
        past_jobs=len(train),
        storage_bytes=_median_bytes(parent.root_id, VersionKind.DOMAIN, viewer=viewer_id),
        queue=queue_position(),
    )


def jobs_estimate(version: Version, jobs: Collection[Job]) -> dict[str, EstimateRange]:
    """The seconds of each of these jobs of a version, by kind. Left out are kinds without past jobs that
    the version's tenant may see."""
    kinds = {JobKind(job.kind) for job in jobs}
    past = past_durations(version.root_id, VersionKind(version.kind), kinds, viewer=version.tenant_id)
    found = {job.kind: EstimateRange.of(past[JobKind(job.kind)]) for job in jobs}
    for job in jobs:
        if job.kind == JobKind.FURTHER_PRETRAIN:
            settings = as_mapping(job.params.get("settings"))
            found[job.kind] = _limited_by_minutes(settings, found[job.kind])
    return {kind: seconds for kind, seconds in found.items() if seconds is not None}


def _sum(train: EstimateRange | None, finish: EstimateRange | None) -> EstimateRange | None:
    return None if train is None or finish is None else train + finish


def _limited_by_minutes(settings: Mapping[str, Any], estimate: EstimateRange | None) -> EstimateRange | None:
    """The ``minutes`` of the settings as a range, the estimate if they are not set."""
    seconds = 60.0 * float(settings.get("minutes") or 0)
    return EstimateRange.exactly(seconds) if seconds else estimate


def _median_bytes(root_id: int, kind: VersionKind, *, viewer: int | None) -> int | None:
    """The median size of the artifacts of the last ready versions of this kind below this root, of all
    tenants, without quick ones, as far as ``visible_values`` shows them to the viewer."""
    ready = Version.unscoped.filter(root=root_id, kind=kind, state=VersionState.READY)
    ready = ready.exclude(config__contains={"quick": True})
    sizes = ready.annotate(bytes=Sum("artifact_links__artifact__size")).filter(bytes__isnull=False)
    with platform_scope():
        last = list(sizes.order_by("-pk").values_list("tenant", "bytes")[:HISTORY_LIMIT])
    found = visible_values(last, viewer)
    return int(median(found)) if found else None
