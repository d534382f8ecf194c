"""Counting infer requests and their answers, and logging single requests."""

from __future__ import annotations

import atexit
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from django.conf import settings

from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.request_log import RequestEntry
from tenants.usage.services.usage_buffer import UsageBuffer, UsageCount

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant

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
    counts are kept. A process that is killed loses what it has not written.
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

    A process keeps HMI_REQUEST_LOG_RATE entries a second; of more it keeps a sample (`RequestSample`).
    """
    if settings.HMI_REQUEST_LOG_DAYS:
        seconds = max(1.0, settings.HMI_USAGE_INTERVAL_S)
        _buffer.add_request(entry, int(settings.HMI_REQUEST_LOG_RATE * seconds))
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


def usage_counted(*, tenant: Tenant, day: date) -> int:
    """Return how many of the tenant's requests of that day this process has counted."""
    return _buffer.counted(tenant.pk, day)


def usage_flushed(*, tenant: Tenant, day: date) -> int:
    """Return how many of ``usage_counted`` are in the database."""
    return _buffer.flushed(tenant.pk, day)


def usage_flush_paused() -> AbstractContextManager[None]:
    """Keep this process from writing in the block, so that the database agrees with ``usage_flushed``."""
    return _buffer.flush_paused()
