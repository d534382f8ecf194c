"""Estimates of the time, storage and queue wait of a model or domain before it is created.

They are the median and the range of what past jobs of the same kinds took below the same root.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from django.db.models import Sum

from tenants.base.scope import platform_scope
from versiontree.jobs.models import Job, JobKind
from versiontree.jobs.selectors import QueuePosition, queue_position
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.past_jobs import HISTORY_LIMIT, EstimateRange, past_durations
from versiontree.tree.selectors.versions import as_mapping

HPLM_JOBS: Final = (JobKind.FINE_TUNE, JobKind.EVALUATE)
DOMAIN_JOBS: Final = (JobKind.FURTHER_PRETRAIN, JobKind.BUILD_PLOT)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a model or a domain.

    ``seconds`` is None if no job of one of its kinds has succeeded below the root. ``past_jobs`` is the
    number of past trainings that it is based on. ``storage_bytes`` is the median of past models or domains of
    the root, None if there are none.
    """

    seconds: EstimateRange | None
    past_jobs: int
    storage_bytes: int | None
    queue: QueuePosition

    @property
    def until_ready(self) -> EstimateRange | None:
        """``seconds`` after the wait in the queue, without the wait if that is unknown."""
        if self.seconds is None:
            return None
        return EstimateRange.exactly(self.queue.wait_s or 0.0) + self.seconds


def hplm_estimate(parent: Version) -> Estimate:
    """The estimate of fine-tuning a model on this parent and evaluating it."""
    past = past_durations(parent.root_id, VersionKind.HPLM, HPLM_JOBS)
    train, evaluate = (past[kind] for kind in HPLM_JOBS)
    return _estimate(
        EstimateRange.of(train), EstimateRange.of(evaluate), parent, VersionKind.HPLM, past_jobs=len(train)
    )


def domain_estimate(parent: Version, *, settings: Mapping[str, Any]) -> Estimate:
    """The estimate of pretraining a domain on this parent and building its table.

    Pretraining takes the ``minutes`` of the settings, if they are set.
    """
    past = past_durations(parent.root_id, VersionKind.DOMAIN, DOMAIN_JOBS)
    train, build = (past[kind] for kind in DOMAIN_JOBS)
    training = _limited_by_minutes(settings, EstimateRange.of(train))
    return _estimate(training, EstimateRange.of(build), parent, VersionKind.DOMAIN, past_jobs=len(train))


def jobs_estimate(version: Version, jobs: Collection[Job]) -> dict[str, EstimateRange]:
    """The seconds of each of these jobs of a version, by kind, without kinds that never succeeded."""
    past = past_durations(version.root_id, VersionKind(version.kind), {JobKind(job.kind) for job in jobs})
    found = {job.kind: EstimateRange.of(past[JobKind(job.kind)]) for job in jobs}
    for job in jobs:
        if job.kind == JobKind.FURTHER_PRETRAIN:
            settings = as_mapping(job.params.get("settings"))
            found[job.kind] = _limited_by_minutes(settings, found[job.kind])
    return {kind: seconds for kind, seconds in found.items() if seconds is not None}


def _estimate(
    train: EstimateRange | None,
    finish: EstimateRange | None,
    parent: Version,
    kind: VersionKind,
    *,
    past_jobs: int,
) -> Estimate:
    return Estimate(
        seconds=None if train is None or finish is None else train + finish,
        past_jobs=past_jobs,
        storage_bytes=_median_bytes(parent.root_id, kind),
        queue=queue_position(),
    )


def _limited_by_minutes(settings: Mapping[str, Any], estimate: EstimateRange | None) -> EstimateRange | None:
    """The ``minutes`` of the settings as a range, the estimate if they are not set."""
    seconds = 60.0 * float(settings.get("minutes") or 0)
    return EstimateRange.exactly(seconds) if seconds else estimate


def _median_bytes(root_id: int, kind: VersionKind) -> int | None:
    """The median size of the artifacts of the last ready versions of this kind below this root, of all
    tenants."""
    ready = Version.unscoped.filter(root=root_id, kind=kind, state=VersionState.READY)
    sizes = ready.annotate(bytes=Sum("artifact_links__artifact__size")).filter(bytes__isnull=False)
    with platform_scope():
        found = list(sizes.order_by("-pk").values_list("bytes", flat=True)[:HISTORY_LIMIT])
    return int(median(found)) if found else None
