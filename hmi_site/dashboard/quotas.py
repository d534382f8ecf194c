"""Tenants that have used up a limit of their quota."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import Count, F, Sum

from tenants.accounts.models import Tenant
from tenants.base.file_sizes import file_size
from tenants.datasets.models import Corpus, DatasetSplit, File, Upload, UploadCheck
from tenants.usage.models import Quota, UsageSum
from tenants.usage.selectors import storage_used_bytes
from versiontree.tree.models import Domain, Evaluation, Hplm, VersionArtifact
from versiontree.tree.services.quota_reservations import jobs_counted


@dataclass(frozen=True, slots=True)
class UsedUp:
    """A limit that a tenant has used up: ``used`` of ``most``."""

    tenant: int
    slug: str
    limit: str
    used: str
    most: str


@dataclass(frozen=True, slots=True)
class CountedLimit:
    """A limit: its name, the field of the quota, and what counts: rows, or the sum of a column."""

    name: str
    field: str
    rows: Any
    column: str = ""


def quotas_used_up() -> list[UsedUp]:
    """Every limit that a tenant has used up, by tenant (twelve queries, and two for each full storage)."""
    found = [row for limit in _counted_limits() for row in _used_up(limit)]
    return sorted([*found, *_storage_used_up()], key=lambda row: (row.slug, row.limit))


def _counted_limits() -> Iterable[CountedLimit]:
    today = datetime.now(UTC).date()
    return (
        CountedLimit("models", "max_models", Hplm.unscoped.filter(deleted_at=None)),
        CountedLimit("domains", "max_domains", Domain.unscoped.filter(tenant__isnull=False)),
        CountedLimit("running jobs", "max_active_jobs", jobs_counted()),
        CountedLimit(
            "requests today", "max_requests_per_day", UsageSum.unscoped.filter(day=today), "requests"
        ),
    )


def _used_up(limit: CountedLimit) -> Iterable[UsedUp]:
    most = f"tenant__quota__{limit.field}"
    living = limit.rows.filter(tenant__deletion_requested_at=None).order_by()
    used = Sum(limit.column) if limit.column else Count("pk")
    rows = living.values_list("tenant", "tenant__slug", most).annotate(used=used).filter(used__gte=F(most))
    return (UsedUp(pk, slug, limit.name, f"{used:,}", f"{most:,}") for pk, slug, most, used in rows)


STORED: Final[tuple[tuple[Any, str, str], ...]] = (
    (Corpus, "tenant", "size_bytes"),
    (DatasetSplit, "dataset__tenant", "size_bytes"),
    (File, "tenant", "size_bytes"),
    (Upload, "tenant", "size_bytes"),
    (UploadCheck, "tenant", "saved_bytes"),
    (VersionArtifact, "tenant", "artifact__size"),
    (Evaluation, "tenant", "artifact__size"),
)
"""Rows that may count as storage: the model, the path to the tenant, the path to the bytes."""


def _storage_used_up() -> Iterable[UsedUp]:
    """The tenants whose storage is full. Sums over all rows, which are never too small, choose the tenants
    whose storage is then computed as their quota does."""
    at_most: Counter[int] = Counter()
    for model, path, size in STORED:
        rows: Any = model.unscoped.filter(**{f"{path}__isnull": False}).order_by()
        at_most.update(dict(rows.values_list(path).annotate(bytes=Sum(size))))
    limits = dict(Quota.unscoped.order_by().values_list("tenant", "max_storage_bytes"))
    chosen = [pk for pk, most in limits.items() if at_most[pk] >= most]
    for tenant in Tenant.objects.filter(pk__in=chosen, deletion_requested_at=None):
        used, most = storage_used_bytes(tenant), limits[tenant.pk]
        if used >= most:
            yield UsedUp(tenant.pk, tenant.slug, "storage", file_size(used), file_size(most))
