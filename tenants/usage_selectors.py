"""Usage added up by the database: a tenant may have a hundred thousand days of hPLMs."""

from dataclasses import dataclass
from datetime import date

from django.db.models import Count, Sum

from tenants.models import Tenant
from tenants.selectors import usage_of


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Sums over a period; ``hplms`` counts the names that were asked."""

    requests: int
    inputs: int
    tokens: int
    failed: int
    hplms: int


def usage_total(tenant: Tenant, since: date) -> UsageTotal:
    """All usage of the tenant from this day on; one query."""
    sums = {name: Sum(name, default=0) for name in ("requests", "inputs", "tokens", "failed")}
    found = usage_of(tenant, since).aggregate(**sums, hplms=Count("hplm_name", distinct=True))
    return UsageTotal(**{name: int(value) for name, value in found.items()})


def busiest_hplms(tenant: Tenant, since: date, limit: int) -> dict[str, int]:
    """Requests of the names that were asked most from this day on, the most first; one query."""
    by_name = usage_of(tenant, since).order_by().values_list("hplm_name").annotate(asked=Sum("requests"))
    return {name: int(asked) for name, asked in by_name.order_by("-asked", "hplm_name")[:limit]}
