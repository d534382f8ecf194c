"""Queries for the request log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet, Sum

from tenants.base.scope import tenant_scope
from tenants.usage.models import LoggedRequest, OmittedRequests, RequestStatus
from tenants.usage.models.requests import FAILED_CODES

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """Filters the request log.

    ``code`` is an error code; ``key`` the prefix of an API key, empty for the browser; ``since`` is
    inclusive, ``until`` is not; ``request_id`` is the beginning of an id. None means all.
    """

    model: str | None = None
    status: RequestStatus | None = None
    code: str | None = None
    key: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    request_id: str | None = None


ALL_REQUESTS = RequestFilter()


class Omitted(NamedTuple):
    """How many requests are not in the log, and how many of those were refused or failed."""

    requests: int
    refused: int
    failed: int


def requests_of(tenant: Tenant, filters: RequestFilter = ALL_REQUESTS) -> QuerySet[LoggedRequest]:
    """The tenant's logged requests, newest first."""
    return LoggedRequest.objects.for_tenant(tenant).filter(_condition(filters)).order_by("-pk")


def request_batches(
    tenant: Tenant, filters: RequestFilter, *, batch_size: int
) -> Iterator[list[LoggedRequest]]:
    """Yield the tenant's logged requests in batches, newest first.

    The reader may be slow: no cursor or connection is held between two batches.
    """
    last: int | None = None
    while batch := _batch(tenant, filters, last, batch_size):
        yield batch
        last = batch[-1].pk


def _batch(tenant: Tenant, filters: RequestFilter, last: int | None, size: int) -> list[LoggedRequest]:
    rows = requests_of(tenant, filters)
    try:
        with tenant_scope(tenant):
            return list((rows if last is None else rows.filter(pk__lt=last))[:size])
    finally:
        if not connection.in_atomic_block:
            connection.close()


def omitted_requests(tenant: Tenant, since: datetime | None = None, until: datetime | None = None) -> Omitted:
    """How many of the tenant's requests of a period are not in its log. Hours count as a whole. One query."""
    hours = OmittedRequests.objects.for_tenant(tenant).order_by()
    if since is not None:
        hours = hours.filter(hour__gt=since - timedelta(hours=1))
    if until is not None:
        hours = hours.filter(hour__lt=until)
    sums = hours.aggregate(**{name: Sum(name, default=0) for name in Omitted._fields})
    return Omitted(**sums)


def _condition(filters: RequestFilter) -> Q:
    condition = Q()
    if filters.status is RequestStatus.ANSWERED:
        condition &= Q(error_code="")
    elif filters.status or filters.code:
        condition &= ~Q(error_code="")  # as the partial index of failures has it
    if filters.status is RequestStatus.FAILED:
        condition &= Q(error_code__in=FAILED_CODES)
    elif filters.status is RequestStatus.REFUSED:
        condition &= ~Q(error_code__in=FAILED_CODES)
    values = {
        "model_name": filters.model,
        "error_code": filters.code,
        "key_prefix": filters.key,
        "at__gte": filters.since,
        "at__lt": filters.until,
        "request_id__startswith": filters.request_id,
    }
    return condition & Q(**{name: value for name, value in values.items() if value is not None})
