"""Counting infer requests and their answers, and logging single requests."""

from __future__ import annotations

import atexit
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db.models import Sum

from tenants.usage.models import UsageDay, UsageSum
from tenants.usage.selectors import SUMMED
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.request_log import RequestEntry
from tenants.usage.services.usage_buffer import UsageBuffer, UsageCount

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant

BATCH_SIZE: Final = 500
_buffer = UsageBuffer()


def usage_record(
    *,
    tenant: Tenant,
    model_name: str,
    requests: int = 1,
    inputs: int = 0,
    tokens: int = 0,
    generated_tokens: int = 0,
    failed: int = 0,
    refused: int = 0,
    day: date | None = None,
    key_prefix: str = "",
    busy_ms: float = 0.0,
) -> None:
    """Add requests to the tenant's row for this model, key (empty: a person in the browser) and day (UTC).

    ``failed`` are among the ``requests``, ``refused`` are not.
    It is written to the database within HMI_USAGE_INTERVAL_S, together with the other requests of that time;
    at once if that is 0. ``generated_tokens`` are among the ``tokens``. While the database is unavailable,
    counts are kept. A process that is killed loses the counts of that interval.
    """
    count = UsageCount(
        requests=requests,
        inputs=inputs,
        tokens=tokens,
        generated_tokens=generated_tokens,
        failed=failed,
        refused=refused,
        busy_ms=busy_ms,
    )
    _buffer.add(tenant.pk, day or datetime.now(UTC).date(), model_name, count, key_prefix)
    _flush_soon()


def answers_record(
    *, tenant: Tenant, model_name: str, version: int, count: AnswerCount, day: date | None = None
) -> None:
    """Add answers to the row of the tenant's version and day (UTC). It is written as `usage_record` says."""
    if count == AnswerCount():
        return
    _buffer.add_answers(tenant.pk, day or datetime.now(UTC).date(), model_name, version, count)
    _flush_soon()


def request_record(entry: RequestEntry) -> None:
    """Add a request to its tenant's request log. It is written as `usage_record` says.

    A process logs HMI_REQUEST_LOG_RATE requests of a tenant a second; the others are counted by the hour.
    """
    if settings.HMI_REQUEST_LOG_DAYS:
        _buffer.add_request(entry)
        _flush_soon()


def _flush_soon() -> None:
    if settings.HMI_USAGE_INTERVAL_S:
        _buffer.flush_after(settings.HMI_USAGE_INTERVAL_S)
    else:
        _buffer.flush()


@atexit.register
def usage_flush() -> bool:
    """Write the counts of this process to the database, also at its exit. Returns whether that succeeded."""
    return _buffer.flush_or_log()


def usage_sums_rebuild(*, tenant: Tenant) -> None:
    """Compute the tenant's sums by day and key from its rows of usage, after these were changed otherwise
    than by `usage_record`. The caller's transaction must keep others from adding to them."""
    UsageSum.objects.for_tenant(tenant).delete()
    rows = UsageDay.objects.for_tenant(tenant).order_by().values("day", "key_prefix")
    sums = rows.annotate(**{name: Sum(name) for name in SUMMED})
    UsageSum.unscoped.bulk_create((UsageSum(tenant=tenant, **row) for row in sums), batch_size=BATCH_SIZE)
