"""Durations of past jobs and of their stages."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean, median
from typing import Any, Final, Self, TypeVar
from uuid import UUID

from django.db.models import F, QuerySet

from tenants.base.scope import platform_scope
from versiontree.jobs.models import JobEvent, JobKind
from versiontree.jobs.selectors import succeeded_jobs
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.lineage import REBASE

Value = TypeVar("Value")

HISTORY_LIMIT: Final = 40
"""The past jobs, or versions, that an estimate is based on."""
STAGE_JOBS: Final = 12
MIN_STAGE_JOBS: Final = 3
"""With fewer past jobs their stages say nothing."""
MIN_SHARED: Final = 3
"""With fewer past jobs, or versions, a median and a range would tell one tenant how long the job of another
took, or how much it stored."""
START_STAGE: Final = "start"
"""The time of a job before its first stage."""


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """A range of seconds, with the most likely value."""

    low: float
    likely: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self | None:
        """The range of past values around their median, None without any."""
        return cls(min(seconds), median(seconds), max(seconds)) if seconds else None

    @classmethod
    def exactly(cls, value: float) -> Self:
        """The range of a known value."""
        return cls(value, value, value)

    def __add__(self, other: Self) -> "EstimateRange":
        return EstimateRange(self.low + other.low, self.likely + other.likely, self.high + other.high)


def past_durations(
    root_id: int, version_kind: VersionKind, kinds: Collection[JobKind], *, viewer: int | None
) -> dict[JobKind, list[float]]:
    """The seconds of the last jobs of these kinds for such versions of this root, of all tenants: they ran on
    the same machine. Only those that ``visible_values`` shows to the viewer. One query for each kind."""
    seconds: dict[JobKind, list[float]] = {}
    for kind in kinds:
        past = _past_jobs(kind, root_id).filter(version__kind=version_kind)
        with platform_scope():
            times = list(past.values_list("tenant", "took")[:HISTORY_LIMIT])
        seconds[kind] = [took.total_seconds() for took in visible_values(times, viewer)]
    return seconds


def visible_values(values: Sequence[tuple[int | None, Value]], viewer: int | None) -> list[Value]:
    """The values, each with its tenant, that an estimate may show to the tenant ``viewer``: its own and the
    platform's (None) if all are fewer than ``MIN_SHARED``, else all. The platform sees all."""
    all_shown = viewer is None or len(values) >= MIN_SHARED
    return [value for tenant, value in values if all_shown or tenant in (viewer, None)]


def stage_shares(kind: JobKind, root_id: int, plan: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The stages of the plan after ``START_STAGE``, each with its mean share of the time of the last jobs of
    this kind below this root.

    The plan itself with too few past jobs. Two queries.
    """
    names = [START_STAGE, *(name for name, _ in plan)]
    recent = _past_jobs(kind, root_id).values_list("pk", "started_at", "finished_at")
    events: dict[UUID, list[tuple[str, datetime]]] = defaultdict(list)
    with platform_scope():
        jobs = list(recent[:STAGE_JOBS])
        stages = JobEvent.unscoped.filter(
            job__in=[pk for pk, _, _ in jobs], kind="stage", at__gte=F("job__started_at")
        )
        for job, name, at in stages.order_by("pk").values_list("job", "message", "at"):
            events[job].append((name, at))
    timed = [
        _stage_times(names, start, events[pk], end) for pk, start, end in jobs if pk in events and end > start
    ]
    if len(timed) < MIN_STAGE_JOBS:
        return list(plan)
    shares = [[time / sum(times, timedelta()) for time in times] for times in timed]
    return [(name, fmean(column)) for name, column in zip(names, zip(*shares, strict=True), strict=True)]


def _past_jobs(kind: JobKind, root_id: int) -> QuerySet[Any]:
    """The succeeded jobs of this kind below a root, newest first, without those of rebased versions:
    most of these are not trained, so they say nothing about a new version."""
    return succeeded_jobs(kind).filter(version__root=root_id).exclude(version__config__has_key=REBASE)


def _stage_times(
    names: Sequence[str], start: datetime, begun: Iterable[tuple[str, datetime]], end: datetime
) -> list[timedelta]:
    """The time of each named stage, from the stages that a job began in order. Time of stages without such a
    name counts for the one before."""
    times = [timedelta()] * len(names)
    index, since = 0, start
    for name, at in begun:
        if name in names[index + 1 :]:
            times[index] = at - since
            index, since = names.index(name, index + 1), at
    times[index] = end - since
    return times
