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
from versiontree.jobs.selectors import _succeeded
from versiontree.tree.models.version import VersionKind

LOOKED_AT: Final = 100


NEAREST: Final = 12


FEWEST: Final = 3
"""Fewer jobs than these tell nothing."""


TEXT: Final = "text"
"""What a corpus is all of, where the parts of a dataset have the names of their splits."""


OF_A_CORPUS: Final = frozenset({JobKind.FURTHER_PRETRAIN, JobKind.BUILD_PLOT})
"""Jobs that make a version of a domain from a corpus; the others make one of a model from a dataset."""


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds, or bytes: probably ``likely``, hardly ever less than ``low`` or more than ``high``."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Self) -> "Span":
        return Span(self.low + other.low, self.likely + other.likely, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a split or a corpus, as it is stored."""

    rows: int
    bytes: int


Sizes = Mapping[str, Size]
"""Of a dataset, by split; of a corpus, all of it as `TEXT`."""


@dataclass(frozen=True, slots=True)
class Past:
    """A job that succeeded at its first try: what it was told (of a table its ``alpha``, too), what it worked
    on, its seconds, and the bytes of the table that it made, if it made one."""

    settings: dict[str, Any]
    sizes: Sizes
    seconds: float
    table_bytes: float = 0.0


def past_jobs(kind: JobKind, root_id: int) -> list[Past]:
    """The last jobs of this kind on models or domains of this root, whoever's: they tell of the machine.
    Those whose data is gone are left out."""
    of, made, sized = (
        ("corpus", VersionKind.DOMAIN, sizes_of_corpora)
        if kind in OF_A_CORPUS
        else ("dataset", VersionKind.HPLM, sizes_of)
    )
    rows = _succeeded(kind).filter(
        version__root=root_id, version__kind=made, **{f"version__{of}__isnull": False}
    )
    told = ("params__settings", "params__alpha", f"version__{of}", "took", "metrics__bytes")
    with platform_scope():
        found = list(rows.values_list(*told)[:LOOKED_AT])
        sizes = sized(data for _, _, data, _, _ in found)
    return [
        Past(
            (settings or {}) | ({} if alpha is None else {"alpha": alpha}),
            sizes[data],
            took.total_seconds(),
            float(table or 0),
        )
        for settings, alpha, data, took, table in found
    ]


def sizes_of(datasets: Iterable[int]) -> dict[int, dict[str, Size]]:
    """The sizes of these datasets, in one query."""
    sizes: dict[int, dict[str, Size]] = defaultdict(dict)
    splits = DatasetSplit.unscoped.filter(dataset__in=set(datasets)).order_by()
    for dataset, split, rows, size in splits.values_list("dataset", "split", "rows", "size_bytes"):
        sizes[dataset][split] = Size(rows, size)
    return sizes


def sizes_of_corpora(corpora: Iterable[int]) -> dict[int, dict[str, Size]]:
    """The sizes of these corpora, in one query."""
    found = Corpus.unscoped.filter(pk__in=set(corpora)).order_by().values_list("pk", "rows", "size_bytes")
    return {corpus: {TEXT: Size(rows, size)} for corpus, rows, size in found}


def span_of(work: float, past: Sequence[tuple[float, float]]) -> Span | None:
    """The seconds (or bytes) of so much work, by the past (work, seconds) nearest to it; None where that
    tells nothing.

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
