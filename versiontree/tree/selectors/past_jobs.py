"""Durations of past jobs and of their stages, and estimates from those of the most similar size."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log2
from statistics import fmean, quantiles
from typing import Any, Final, Self
from uuid import UUID

from django.db.models import F

from tenants.base.scope import platform_scope
from tenants.datasets.models import Corpus, DatasetSplit
from versiontree.jobs.models import JobEvent, JobKind
from versiontree.jobs.selectors import succeeded_jobs
from versiontree.tree.models.version import VersionKind

HISTORY_LIMIT: Final = 100
MAX_NEIGHBOURS: Final = 12
MIN_PAST_JOBS: Final = 3
"""With fewer past jobs there is no estimate."""
TEXT: Final = "text"
"""The only key in the sizes of a corpus; those of a dataset have its splits as keys."""
START_STAGE: Final = "start"
"""The time of a job before its first stage."""
CORPUS_JOBS: Final = frozenset({JobKind.FURTHER_PRETRAIN, JobKind.BUILD_PLOT})
"""Jobs that train a domain on a corpus. The others train or evaluate a model on a dataset."""


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """A range of seconds or bytes, with the most likely value."""

    low: float
    likely: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Self:
        """The range of a known value."""
        return cls(value, value, value)

    def __add__(self, other: Self) -> "EstimateRange":
        return EstimateRange(self.low + other.low, self.likely + other.likely, self.high + other.high)


@dataclass(frozen=True, slots=True)
class DataSize:
    """The size of a stored split or corpus."""

    rows: int
    bytes: int


DataSizes = Mapping[str, DataSize]
"""The sizes of a dataset by split, or of a corpus under ``TEXT``."""


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that succeeded in its first attempt.

    ``settings`` include the ``alpha`` of a table; ``table_bytes`` is the size of the table that it built.
    """

    settings: dict[str, Any]
    sizes: DataSizes
    seconds: float
    table_bytes: float = 0.0


def past_jobs(kind: JobKind, root_id: int) -> list[PastJob]:
    """The last jobs of this kind below this root, of all tenants: they ran on the same machines.

    Jobs whose data was deleted are left out.
    """
    data_field, version_kind, sizes_of = (
        ("corpus", VersionKind.DOMAIN, corpus_sizes)
        if kind in CORPUS_JOBS
        else ("dataset", VersionKind.HPLM, dataset_sizes)
    )
    rows = succeeded_jobs(kind).filter(
        version__root=root_id, version__kind=version_kind, **{f"version__{data_field}__isnull": False}
    )
    # An evaluation has those of the version's training.
    settings_field = "version__config__settings" if kind == JobKind.EVALUATE else "params__settings"
    columns = (settings_field, "params__alpha", f"version__{data_field}", "took", "metrics__bytes")
    with platform_scope():
        found = list(rows.values_list(*columns)[:HISTORY_LIMIT])
        sizes = sizes_of(data for _, _, data, _, _ in found)
    return [
        PastJob(
            (settings or {}) | ({} if alpha is None else {"alpha": alpha}),
            sizes[data],
            took.total_seconds(),
            float(table_bytes or 0),
        )
        for settings, alpha, data, took, table_bytes in found
    ]


def stage_shares(kind: JobKind, root_id: int, plan: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The stages of the plan after ``START_STAGE``, each with its mean share of the time of the last jobs of
    this kind below this root.

    The plan itself with too few past jobs. Two queries.
    """
    names = [START_STAGE, *(name for name, _ in plan)]
    recent = succeeded_jobs(kind).filter(version__root=root_id).values_list("pk", "started_at", "finished_at")
    events: dict[UUID, list[tuple[str, datetime]]] = defaultdict(list)
    with platform_scope():
        jobs = list(recent[:MAX_NEIGHBOURS])
        stages = JobEvent.unscoped.filter(
            job__in=[pk for pk, _, _ in jobs], kind="stage", at__gte=F("job__started_at")
        )
        for job, name, at in stages.order_by("pk").values_list("job", "message", "at"):
            events[job].append((name, at))
    timed = [
        _stage_times(names, start, events[pk], end) for pk, start, end in jobs if pk in events and end > start
    ]
    if len(timed) < MIN_PAST_JOBS:
        return list(plan)
    shares = [[time / sum(times, timedelta()) for time in times] for times in timed]
    return [(name, fmean(column)) for name, column in zip(names, zip(*shares, strict=True), strict=True)]


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


def dataset_sizes(datasets: Iterable[int]) -> dict[int, dict[str, DataSize]]:
    """The sizes of these datasets. One query."""
    sizes: dict[int, dict[str, DataSize]] = defaultdict(dict)
    splits = DatasetSplit.unscoped.filter(dataset__in=set(datasets)).order_by()
    for dataset, split, rows, size in splits.values_list("dataset", "split", "rows", "size_bytes"):
        sizes[dataset][split] = DataSize(rows, size)
    return sizes


def corpus_sizes(corpora: Iterable[int]) -> dict[int, dict[str, DataSize]]:
    """The sizes of these corpora. One query."""
    found = Corpus.unscoped.filter(pk__in=set(corpora)).order_by().values_list("pk", "rows", "size_bytes")
    return {corpus: {TEXT: DataSize(rows, size)} for corpus, rows, size in found}


def range_from_past(work: float, past: Sequence[tuple[float, float]]) -> EstimateRange | None:
    """The seconds (or bytes) for an amount of work, from past pairs (work, seconds). None with too few pairs.

    The range spans the quartiles of the nearest neighbours' rates. It is wider if they are few or far off.
    """
    usable = [(done, seconds) for done, seconds in past if done > 0 and seconds > 0]
    if len(usable) < MIN_PAST_JOBS or work <= 0:
        return None
    nearest = sorted(usable, key=lambda one: abs(log2(one[0] / work)))[:MAX_NEIGHBOURS]
    rates = [seconds / done for done, seconds in nearest]
    low, median, high = quantiles(rates, n=4, method="inclusive")
    margin = 1 + 1 / len(rates) + abs(log2(nearest[0][0] / work)) / 4
    return EstimateRange(work * low / margin, work * median, work * high * margin)
