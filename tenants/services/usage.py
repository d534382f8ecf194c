"""Counting infer requests."""

from datetime import UTC, date, datetime

from django.db.models import F

from tenants.models import Tenant, UsageDay


def usage_record(
    *,
    tenant: Tenant,
    hplm_name: str,
    inputs: int,
    tokens: int,
    failed: bool = False,
    day: date | None = None,
) -> None:
    """Add one request to the tenant's row for this hPLM and day (UTC)."""
    key = {"tenant": tenant, "hplm_name": hplm_name, "day": day or datetime.now(UTC).date()}
    if _add(key, inputs, tokens, failed):
        return
    # The first request of the day: whoever else inserts the row at this moment, all then add to it.
    UsageDay.unscoped.bulk_create([UsageDay(**key)], ignore_conflicts=True)
    _add(key, inputs, tokens, failed)


def _add(key: dict[str, object], inputs: int, tokens: int, failed: bool) -> int:
    return UsageDay.unscoped.filter(**key).update(
        requests=F("requests") + 1,
        inputs=F("inputs") + inputs,
        tokens=F("tokens") + tokens,
        failed=F("failed") + int(failed),
    )
