"""The limits of a tenant, and how much of them is used."""

from dataclasses import dataclass
from datetime import UTC, datetime

from frontend.presenters.charts import Bar
from tenants.accounts.models import Tenant
from tenants.accounts.selectors import api_keys_active, invitations_created_since
from tenants.base.file_sizes import file_size
from tenants.datasets.selectors.uploads import storage_used
from tenants.usage.models import Quota
from tenants.usage.selectors import Rates, quota_of, rates_of, requests_today, storage_used_bytes
from versiontree.tree.selectors.versions import artifact_bytes, domains_visible_to
from versiontree.tree.services.quota_reservations import hplms_in_use, jobs_in_use

AT_MIDNIGHT = "resets at midnight UTC"
EVERY_SECOND = "refills every second"
UNLIMITED = "no limit"
NEAR = 0.9
"""Bars from this share of a limit on are red."""


@dataclass(frozen=True, slots=True)
class Used:
    """The used amount of each limit."""

    requests: int
    models: int
    domains: int
    jobs: int
    uploads: int
    artifacts: int
    keys: int
    invitations: int


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit. `share` is the used part in 0..1, or None if that is not counted."""

    name: str
    figure: str
    note: str
    share: float | None = None

    @property
    def near(self) -> bool:
        """Return whether the limit is almost reached."""
        return self.share is not None and self.share >= NEAR


def limits_of(tenant: Tenant) -> list[LimitRow]:
    """Return the limits of a tenant with the used amounts."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    used = Used(
        requests=requests_today(tenant),
        models=hplms_in_use(tenant),
        domains=domains_visible_to(tenant).filter(tenant=tenant).count(),
        jobs=jobs_in_use(tenant),
        uploads=storage_used(tenant),
        artifacts=artifact_bytes(tenant),
        keys=api_keys_active(tenant).count(),
        invitations=invitations_created_since(tenant, midnight),
    )
    return limit_rows(quota_of(tenant), rates_of(tenant), used)


def limit_rows(quota: Quota, rates: Rates, used: Used) -> list[LimitRow]:
    """Return the rows of limits, those that reset first."""
    return [
        _counted("Requests today", used.requests, quota.max_requests_per_day, AT_MIDNIGHT),
        *_rates(rates),
        _counted("Models", used.models, quota.max_models, "freed when a model is deleted"),
        _counted("Domains", used.domains, quota.max_domains, "without domains of the platform"),
        _counted("Running jobs", used.jobs, quota.max_active_jobs, "freed when a job ends"),
        _stored(used, quota.max_storage_bytes),
        _counted(
            "API keys", used.keys, quota.max_api_keys, "active keys; freed when one expires or is revoked"
        ),
        _counted("Invitations today", used.invitations, quota.max_invitations_per_day, AT_MIDNIGHT),
    ]


def quota_bars(tenant: Tenant, quota: Quota, *, models: int, jobs: int) -> list[Bar]:
    """Return the used part of the quota, with the given counts of models and active jobs."""
    domains = domains_visible_to(tenant).filter(tenant=tenant).count()
    stored = storage_used_bytes(tenant)
    counted = (
        ("Models", models, quota.max_models),
        ("Domains", domains, quota.max_domains),
        ("Running jobs", jobs, quota.max_active_jobs),
        ("Requests today", requests_today(tenant), quota.max_requests_per_day),
    )
    limit = quota.max_storage_bytes
    return [
        *(_limited(name, used, most, f"{used:,} of {most:,}") for name, used, most in counted),
        _limited("Storage", stored, limit, f"{file_size(stored)} of {file_size(limit)}"),
    ]


def _counted(name: str, used: int, most: int, note: str) -> LimitRow:
    return LimitRow(name, f"{used:,} of {most:,}", note, _share(used, most))


def _rates(rates: Rates) -> list[LimitRow]:
    limits = (
        ("Requests per minute", rates.requests_per_minute),
        ("Tokens per minute", rates.tokens_per_minute),
        ("Other API requests per minute", rates.manage_per_minute),
    )
    return [LimitRow(name, f"at most {most:,}" if most else UNLIMITED, EVERY_SECOND) for name, most in limits]


def _stored(used: Used, most: int) -> LimitRow:
    stored = used.uploads + used.artifacts
    parts = f"uploads {file_size(used.uploads)}, models and tables {file_size(used.artifacts)}"
    return LimitRow("Storage", f"{file_size(stored)} of {file_size(most)}", parts, _share(stored, most))


def _limited(name: str, used: int, most: int, figure: str) -> Bar:
    share = _share(used, most)
    return Bar(name, share, figure, near=share >= NEAR)


def _share(used: int, most: int) -> float:
    return min(1.0, used / most) if most else 1.0
