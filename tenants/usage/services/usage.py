"""Counting infer requests."""

from __future__ import annotations

import atexit
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from django.conf import settings

from tenants.usage.services.usage_buffer import Count, UsageBuffer

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant

_buffer = UsageBuffer()


def usage_record(
    *,
    tenant: Tenant,
    model_name: str,
    inputs: int,
    tokens: int,
    failed: bool = False,
    day: date | None = None,
    key_prefix: str = "",
    busy_ms: float = 0.0,
) -> None:
    """Add one request to the tenant's row for this model, key (none: a person in the browser) and day (UTC).

    It is written down within HMI_USAGE_INTERVAL_S, together with all others of that time; at once where that
    is 0. What the database does not take is kept until it does. A process that is killed loses what it has
    not written.
    """
    count = Count(requests=1, inputs=inputs, tokens=tokens, failed=int(failed), busy_ms=busy_ms)
    _buffer.add(tenant.pk, day or datetime.now(UTC).date(), model_name, count, key_prefix)
    if settings.HMI_USAGE_INTERVAL_S:
        _buffer.write_within(settings.HMI_USAGE_INTERVAL_S)
    else:
        _buffer.write()


@atexit.register
def usage_write() -> bool:
    """Write down what this process has counted, as it does before it ends; whether the database took it."""
    return _buffer.write_or_log()


def usage_counted(*, tenant: Tenant, day: date) -> int:
    """The tenant's requests of that day that this process has counted."""
    return _buffer.counted(tenant.pk, day)


def usage_landed(*, tenant: Tenant, day: date) -> int:
    """How many of those are written down."""
    return _buffer.landed(tenant.pk, day)


def usage_settled() -> AbstractContextManager[None]:
    """In here this process writes nothing down: what is asked of the database goes with `usage_landed`."""
    return _buffer.settled()
