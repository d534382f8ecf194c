"""The tenants that load the machine."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import Sum

from tenants.usage.models import UsageSum

MAX_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """A tenant's use of the inference workers today (UTC). ``share`` is its part of all machine time."""

    tenant: int
    slug: str
    requests: int
    tokens: int
    seconds: float
    share: float


def busiest_tenants() -> list[TenantLoad]:
    """The tenants with the most machine time today, then with the most tokens (two queries)."""
    today = UsageSum.unscoped.filter(day=datetime.now(UTC).date()).order_by()
    all_ms = float(today.aggregate(total=Sum("busy_ms", default=0.0))["total"])
    sums = today.values_list("tenant", "tenant__slug").annotate(
        sum_requests=Sum("requests"), sum_tokens=Sum("tokens"), sum_ms=Sum("busy_ms")
    )
    rows: Any = sums.order_by("-sum_ms", "-sum_tokens", "tenant__slug")[:MAX_SHOWN]
    return [
        TenantLoad(pk, slug, requests, tokens, ms / 1000, ms / all_ms if all_ms else 0.0)
        for pk, slug, requests, tokens, ms in rows
    ]
