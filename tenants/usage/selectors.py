"""Sums of usage, and quotas.

A tenant may have a hundred thousand rows of usage a month. The sums by day and key are stored; sums by model
are computed.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.conf import settings
from django.db import connection
from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum

from tenants.base import hooks
from tenants.base.scope import tenant_scope
from tenants.usage.models import AnswerDay, LoggedRequest, Quota, UsageDay, UsageSum

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant

SUMMED: Final = ("requests", "inputs", "tokens", "generated_tokens", "failed", "refused", "busy_ms")


class UsageBy(StrEnum):
    """What usage is summed by."""

    DAY = "day"
    MODEL = "model"
    KEY = "key"

    @property
    def column(self) -> str:
        """The column to group by."""
        return {UsageBy.DAY: "day", UsageBy.MODEL: "model_name", UsageBy.KEY: "key_prefix"}[self]


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Filters usage by model name and by key prefix, which is empty for the browser. None means all."""

    model: str | None = None
    key: str | None = None

    def apply(self, rows: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
        """Return the rows that match."""
        values = {"model_name": self.model, "key_prefix": self.key}
        return rows.filter(**{column: value for column, value in values.items() if value is not None})


ALL_USAGE: Final = UsageFilter()


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Sums over a period. ``failed`` are among the ``requests``, ``refused`` are not. ``tokens`` are those
    read and those generated, ``generated_tokens`` the latter; ``busy_ms`` is how long inference workers were
    busy."""

    requests: int
    inputs: int
    tokens: int
    generated_tokens: int
    failed: int
    refused: int = 0
    busy_ms: float = 0.0


def storage_used_bytes(tenant: Tenant) -> int:
    """The bytes that count against the tenant's storage quota: data, and artifacts of models and domains."""
    return sum(hooks.storage_used(tenant))


def month_of(day: date) -> tuple[date, date]:
    """The first and the last day of its month."""
    return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])


def has_usage(tenant: Tenant) -> bool:
    """Whether the tenant ever sent an infer request that was not refused. One query."""
    return UsageSum.objects.for_tenant(tenant).filter(requests__gt=0).exists()


def usage_total(tenant: Tenant, since: date, until: date | None = None) -> UsageTotal:
    """The tenant's usage from ``since`` through ``until``. One query."""
    sums = _source_rows(tenant, UsageBy.DAY, since, until)
    return UsageTotal(**sums.aggregate(**{name: Sum(name, default=0) for name in SUMMED}))


def usage_by(
    tenant: Tenant,
    by: UsageBy,
    since: date,
    until: date | None = None,
    *,
    names: Collection[str] | None = None,
    filters: UsageFilter = ALL_USAGE,
) -> QuerySet[Any, Any]:
    """Usage of a period by day, model or key, as dictionaries of ``name`` and the sums.

    Newest days, or most requests, first. ``names`` limits the days, models or keys. The name of a key is its
    prefix, empty for the browser.
    """
    rows = _source_rows(tenant, by, since, until, filters).order_by().values(name=F(by.column))
    if names is not None:
        rows = rows.filter(**{f"{by.column}__in": names})
    summed: QuerySet[Any, Any] = rows.annotate(**{name: Sum(name) for name in SUMMED})
    return summed.order_by(*(["-name"] if by == UsageBy.DAY else ["-requests", "name"]))


def usage_by_day_and_model(tenant: Tenant, since: date, until: date | None = None) -> QuerySet[Any, Any]:
    """Usage of a period by day and model, as dictionaries, newest day first."""
    rows = _in_period(UsageDay, tenant, since, until).order_by().values("day", "model_name")
    summed: QuerySet[Any, Any] = rows.annotate(**{name: Sum(name) for name in SUMMED})
    return summed.order_by("-day", "model_name")


def most_requests(
    tenant: Tenant,
    by: UsageBy,
    since: date,
    until: date | None = None,
    *,
    limit: int | None,
    filters: UsageFilter = ALL_USAGE,
) -> dict[str, int]:
    """Name -> requests of the models or keys with the most requests in a period, descending. One query."""
    rows = _source_rows(tenant, by, since, until, filters).filter(requests__gt=0)
    totals = rows.order_by().values_list(by.column).annotate(total=Sum("requests"))
    return dict(totals.order_by("-total", by.column)[:limit])


def usage_batches(
    tenant: Tenant,
    since: date,
    until: date,
    columns: tuple[str, ...],
    *,
    batch_size: int,
    filters: UsageFilter = ALL_USAGE,
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a period in batches, newest day first.

    The reader may be slow: no cursor or connection is held between two batches.
    """
    for day in _days(tenant, since, until, filters):
        last: tuple[str, str] | None = None
        while rows := _batch(tenant, day, last, columns, batch_size, filters):
            yield [row[2:] for row in rows]
            last = rows[-1][:2]


def _days(tenant: Tenant, since: date, until: date, filters: UsageFilter) -> list[date]:
    with tenant_scope(tenant):
        sums = _source_rows(tenant, UsageBy.DAY, since, until, filters).order_by("-day")
        return list(sums.values_list("day", flat=True).distinct())


def _batch(
    tenant: Tenant,
    day: date,
    last: tuple[str, str] | None,
    columns: tuple[str, ...],
    batch_size: int,
    filters: UsageFilter,
) -> list[tuple[Any, ...]]:
    """The rows of a day after ``last`` (model and key), which they have before the columns."""
    rows = filters.apply(UsageDay.objects.for_tenant(tenant)).filter(day=day)
    rows = rows.order_by("model_name", "key_prefix")
    if last is not None:
        seen = Q(model_name=last[0], key_prefix__lte=last[1])
        rows = rows.filter(~seen, model_name__gte=last[0])
    try:
        with tenant_scope(tenant):
            return list(rows.values_list("model_name", "key_prefix", *columns)[:batch_size])
    finally:
        if not connection.in_atomic_block:
            connection.close()


def _source_rows(
    tenant: Tenant, by: UsageBy, since: date, until: date | None, filters: UsageFilter = ALL_USAGE
) -> QuerySet[Any, Any]:
    """The rows of the smallest table from which the sums can be computed."""
    are_summed = by != UsageBy.MODEL and filters.model is None
    return filters.apply(_in_period(UsageSum if are_summed else UsageDay, tenant, since, until))


def _in_period(
    model: type[UsageDay | UsageSum], tenant: Tenant, since: date, until: date | None
) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = model.objects.for_tenant(tenant).filter(day__gte=since)
    return rows if until is None else rows.filter(day__lte=until)


class Rates(NamedTuple):
    """Rate limits per minute: infer requests, their tokens, requests to the manage API. 0 means unlimited."""

    requests_per_minute: int
    tokens_per_minute: int
    manage_per_minute: int


def quota_of(tenant: Tenant) -> Quota:
    """The tenant's quota, or an unsaved one with the defaults."""
    return Quota.objects.for_tenant(tenant).first() or Quota(tenant=tenant)


def usage_of(tenant: Tenant, since: date) -> QuerySet[UsageDay]:
    """The tenant's usage by day, model and key, from this day on, newest first."""
    return UsageDay.objects.for_tenant(tenant).filter(day__gte=since)


def answers_by_day(tenant: Tenant, model_name: str, version: int, since: date) -> list[AnswerDay]:
    """The answers of a version by day, from this day on, oldest first. One query."""
    rows = AnswerDay.objects.for_tenant(tenant).filter(model_name=model_name, version=version)
    return list(rows.filter(day__gte=since).order_by("day"))


def busiest_versions(day: date, limit: int) -> list[AnswerDay]:
    """The versions of all tenants with the most texts of that day, with their tenants. One query."""
    rows = AnswerDay.unscoped.filter(day=day, texts__gt=0).select_related("tenant")
    return list(rows.order_by("-texts", "pk")[:limit])


def days_drifted(since: date, limit: int) -> list[AnswerDay]:
    """Days of all tenants' versions that left their band, from this day on, newest and busiest first, with
    their tenants. One query."""
    rows = AnswerDay.unscoped.filter(day__gte=since).exclude(drift="").select_related("tenant")
    return list(rows.order_by("-day", "-texts", "pk")[:limit])


def last_model_used(tenant: Tenant) -> str:
    """The name of the model that answered the tenant's newest request; "" if there is none in the log."""
    answered = LoggedRequest.objects.for_tenant(tenant).filter(error_code="").exclude(model_name="")
    return answered.values_list("model_name", flat=True).first() or ""


def requests_today(tenant: Tenant) -> int:
    """The tenant's infer requests since midnight UTC, without those that are still buffered."""
    rows = UsageSum.objects.for_tenant(tenant).filter(day=datetime.now(UTC).date())
    return int(rows.aggregate(total=Sum("requests"))["total"] or 0)


def daily_request_quota(tenant: Tenant, day: date) -> tuple[int, int]:
    """The tenant's limit of infer requests a day, and how many of that day are in the database. One query."""
    of_day = UsageSum.unscoped.filter(tenant=OuterRef("tenant"), day=day).order_by().values("tenant")
    used = Subquery(of_day.annotate(total=Sum("requests")).values("total"))
    found = Quota.objects.for_tenant(tenant).values_list("max_requests_per_day", used).first()
    if found is None:
        return Quota(tenant=tenant).max_requests_per_day, requests_today(tenant)
    return int(found[0]), int(found[1] or 0)


def rates_of(tenant: Tenant) -> Rates:
    """The tenant's rate limits: its own, else those of the installation."""
    limits = Quota.objects.for_tenant(tenant).values_list(*Rates._fields).first() or (None, None, None)
    defaults = (settings.HMI_RATE_REQUESTS, settings.HMI_RATE_TOKENS, settings.HMI_RATE_MANAGE)
    return Rates(*(limit or default for limit, default in zip(limits, defaults, strict=True)))
