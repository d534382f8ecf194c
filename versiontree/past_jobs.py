"""How long jobs took, for guessing how long others will."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import median, quantiles
from typing import Any, Final, Self

from django.db.models import DurationField, ExpressionWrapper, F, QuerySet

from tenants.models import DatasetSplit
from tenants.scope import platform_scope
from versiontree.models import Job
from versiontree.models.job import JobKind, JobState

LOOKED_AT: Final = 100
NEAREST: Final = 12
FEWEST: Final = 3
"""Fewer jobs than these tell nothing."""
LATELY: Final = 20


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds: probably ``likely``, hardly ever less than ``low`` or more than ``high``."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Self) -> "Span":
        return Span(self.low + other.low, self.likely + other.likely, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a split, as it is stored."""

    rows: int
    bytes: int


Sizes = Mapping[str, Size]
"""Of a dataset, by split."""


@dataclass(frozen=True, slots=True)
class Past:
    """A job that succeeded at its first try: what it was told, what it worked on, and its seconds."""

    settings: dict[str, Any]
    sizes: Sizes
    seconds: float


def past_jobs(kind: JobKind, root_id: int) -> list[Past]:
    """The last jobs of this kind on hPLMs of this root, whoever's: they tell of the machine. Those whose
    dataset is gone are left out."""
    rows = _succeeded(kind).filter(version__root=root_id, version__dataset__isnull=False)
    with platform_scope():
        found = list(rows.values_list("params__settings", "version__dataset", "took")[:LOOKED_AT])
        sizes = sizes_of(dataset for _, dataset, _ in found)
    return [Past(settings or {}, sizes[dataset], took.total_seconds()) for settings, dataset, took in found]


def sizes_of(datasets: Iterable[int]) -> dict[int, dict[str, Size]]:
    """The sizes of these datasets, in one query."""
    sizes: dict[int, dict[str, Size]] = defaultdict(dict)
    splits = DatasetSplit.unscoped.filter(dataset__in=set(datasets)).order_by()
    for dataset, split, rows, size in splits.values_list("dataset", "split", "rows", "size_bytes"):
        sizes[dataset][split] = Size(rows, size)
    return sizes


def usual_seconds(kinds: Iterable[str]) -> dict[str, float]:
    """What the last jobs of each of these kinds took, the median; without those of which there are none."""
    found = {}
    with platform_scope():
        for kind in dict.fromkeys(kinds):
            if times := list(_succeeded(JobKind(kind)).values_list("took", flat=True)[:LATELY]):
                found[kind] = median(took.total_seconds() for took in times)
    return found


def span_of(work: float, past: Sequence[tuple[float, float]]) -> Span | None:
    """The seconds of so much work, by the past (work, seconds) nearest to it; None where that tells nothing.

    The middle half of them is the span, wider the fewer they are and the further off.
    """
    told = [(done, seconds) for done, seconds in past if done > 0 and seconds > 0]
    if len(told) < FEWEST or work <= 0:
        return None
    near = sorted(told, key=lambda one: abs(log2(one[0] / work)))[:NEAREST]
    rates = [seconds / done for done, seconds in near]
    low, middle, high = quantiles(rates, n=4, method="inclusive")
    doubt = 1 + 1 / len(rates) + abs(log2(near[0][0] / work)) / 4
    return Span(work * low / doubt, work * middle, work * high * doubt)


def _succeeded(kind: JobKind) -> QuerySet[Any]:
    """The newest first, with how long each ``took``; what was tried more than once also waited."""
    done = Job.unscoped.filter(kind=kind, state=JobState.SUCCEEDED, attempt=1)
    took = ExpressionWrapper(F("finished_at") - F("started_at"), output_field=DurationField())
    timed = done.filter(started_at__isnull=False, finished_at__isnull=False).annotate(took=took)
    return timed.order_by("-finished_at")
