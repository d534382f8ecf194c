"""How long jobs took, for guessing how long others will."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import quantiles
from typing import Any, Final, Self

from tenants.base.scope import platform_scope
from tenants.datasets.models import Corpus, DatasetSplit
from versiontree.jobs.models import JobKind
from versiontree.jobs.selectors import succeeded_jobs
from versiontree.tree.models.version import VersionKind

HISTORY_LIMIT: Final = 100


MAX_NEIGHBOURS: Final = 12


MIN_PAST_JOBS: Final = 3
"""Fewer jobs than these tell nothing."""


TEXT: Final = "text"
"""What a corpus is all of, where the parts of a dataset have the names of their splits."""


CORPUS_JOBS: Final = frozenset({JobKind.FURTHER_PRETRAIN, JobKind.BUILD_PLOT})
"""Jobs that make a version of a domain from a corpus; the others make one of a model from a dataset."""


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """Seconds, or bytes: probably ``likely``, hardly ever less than ``low`` or more than ``high``."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Self) -> "EstimateRange":
        return EstimateRange(self.low + other.low, self.likely + other.likely, self.high + other.high)


@dataclass(frozen=True, slots=True)
class DataSize:
    """Of a split or a corpus, as it is stored."""

    rows: int
    bytes: int


DataSizes = Mapping[str, DataSize]
"""Of a dataset, by split; of a corpus, all of it as `TEXT`."""


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that succeeded at its first try: what it was told (of a table its ``alpha``, too), what it worked
    on, its seconds, and the bytes of the table that it made, if it made one."""

    settings: dict[str, Any]
    sizes: DataSizes
    seconds: float
    table_bytes: float = 0.0


def past_jobs(kind: JobKind, root_id: int) -> list[PastJob]:
    """The last jobs of this kind on models or domains of this root, whoever's: they tell of the machine.
    Those whose data is gone are left out."""
    of, made, sized = (
        ("corpus", VersionKind.DOMAIN, corpus_sizes)
        if kind in CORPUS_JOBS
        else ("dataset", VersionKind.HPLM, dataset_sizes)
    )
    rows = succeeded_jobs(kind).filter(
        version__root=root_id, version__kind=made, **{f"version__{of}__isnull": False}
    )
    told = ("params__settings", "params__alpha", f"version__{of}", "took", "metrics__bytes")
    with platform_scope():
        found = list(rows.values_list(*told)[:HISTORY_LIMIT])
        sizes = sized(data for _, _, data, _, _ in found)
    return [
        PastJob(
            (settings or {}) | ({} if alpha is None else {"alpha": alpha}),
            sizes[data],
            took.total_seconds(),
            float(table or 0),
        )
        for settings, alpha, data, took, table in found
    ]


def dataset_sizes(datasets: Iterable[int]) -> dict[int, dict[str, DataSize]]:
    """The sizes of these datasets, in one query."""
    sizes: dict[int, dict[str, DataSize]] = defaultdict(dict)
    splits = DatasetSplit.unscoped.filter(dataset__in=set(datasets)).order_by()
    for dataset, split, rows, size in splits.values_list("dataset", "split", "rows", "size_bytes"):
        sizes[dataset][split] = DataSize(rows, size)
    return sizes


def corpus_sizes(corpora: Iterable[int]) -> dict[int, dict[str, DataSize]]:
    """The sizes of these corpora, in one query."""
    found = Corpus.unscoped.filter(pk__in=set(corpora)).order_by().values_list("pk", "rows", "size_bytes")
    return {corpus: {TEXT: DataSize(rows, size)} for corpus, rows, size in found}


def range_from_past(work: float, past: Sequence[tuple[float, float]]) -> EstimateRange | None:
    """The seconds (or bytes) of so much work, by the past (work, seconds) nearest to it; None where that
    tells nothing.

    The middle half of them is the span, wider the fewer they are and the further off.
    """
    told = [(done, seconds) for done, seconds in past if done > 0 and seconds > 0]
    if len(told) < MIN_PAST_JOBS or work <= 0:
        return None
    near = sorted(told, key=lambda one: abs(log2(one[0] / work)))[:MAX_NEIGHBOURS]
    rates = [seconds / done for done, seconds in near]
    low, middle, high = quantiles(rates, n=4, method="inclusive")
    doubt = 1 + 1 / len(rates) + abs(log2(near[0][0] / work)) / 4
    return EstimateRange(work * low / doubt, work * middle, work * high * doubt)
