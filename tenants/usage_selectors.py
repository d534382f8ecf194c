"""Usage added up by the database: a tenant may have a hundred thousand rows."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Final

from django.db.models import Count, F, Q, QuerySet, Sum

from tenants.models import Tenant, UsageDay
from tenants.selectors import usage_of

SUMMED: Final = ("requests", "inputs", "tokens", "failed", "busy_ms")


class UsageBy(StrEnum):
    """What usage is added up by."""

    DAY = "day"
    MODEL = "model"
    KEY = "key"

    @property
    def column(self) -> str:
        """Where it stands in the rows."""
        return {UsageBy.DAY: "day", UsageBy.MODEL: "hplm_name", UsageBy.KEY: "key_prefix"}[self]


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Sums over a period; ``hplms`` counts the names that were asked, ``busy_ms`` is for how long inference
    workers were busy."""

    requests: int
    inputs: int
    tokens: int
    failed: int
    hplms: int
    busy_ms: float = 0.0


def usage_total(tenant: Tenant, since: date, until: date | None = None) -> UsageTotal:
    """All usage of the tenant from this day on, through the other; one query."""
    # By way of the sums of hPLMs: to count the different names among all rows, these would have to be sorted.
    rows = _between(tenant, since, until).order_by().values("hplm_name")
    by_hplm = rows.annotate(**{f"{name}_of": Sum(name) for name in SUMMED})
    sums = {name: Sum(f"{name}_of", default=0) for name in SUMMED}
    return UsageTotal(**by_hplm.aggregate(**sums, hplms=Count("*")))


def usage_by(tenant: Tenant, by: UsageBy, since: date, until: date | None = None) -> QuerySet[UsageDay, Any]:
    """Usage of a period as dictionaries: ``name`` (a day, the name of an hPLM, or the prefix of a key, empty
    for the browser) and its sums; the newest day, or what was asked most, first.
    """
    rows = _between(tenant, since, until).order_by().values(name=F(by.column))
    summed = rows.annotate(**{name: Sum(name) for name in SUMMED})
    return summed.order_by("-name") if by == UsageBy.DAY else summed.order_by("-requests", "name")


def usage_by_day_and_hplm(tenant: Tenant, since: date, until: date | None = None) -> QuerySet[UsageDay, Any]:
    """Usage of a period by day and hPLM, all keys together, as dictionaries; the newest day first."""
    rows = _between(tenant, since, until).order_by().values("day", "hplm_name")
    return rows.annotate(**{name: Sum(name) for name in SUMMED}).order_by("-day", "hplm_name")


def busiest(
    tenant: Tenant, by: UsageBy, since: date, until: date | None = None, *, limit: int
) -> dict[str, int]:
    """Requests of the hPLMs or keys with most of them in a period, the most first; one query."""
    rows = _between(tenant, since, until).order_by().values_list(by.column)
    return dict(rows.annotate(asked=Sum("requests")).order_by("-asked", by.column)[:limit])


def _between(tenant: Tenant, since: date, until: date | None) -> QuerySet[UsageDay]:
    return usage_of(tenant, since).filter(Q() if until is None else Q(day__lte=until))
