"""What a tenant may have and use, how much of it is taken, and when it is free again."""

from dataclasses import dataclass

from django.template.defaultfilters import filesizeformat

from tenants.models import Quota
from tenants.selectors import Rates

AT_MIDNIGHT = "begins anew at midnight UTC"
BY_THE_SECOND = "comes back second by second"
UNLIMITED = "no limit"
NEAR = 0.9
"""From this share of a limit on it will soon be felt."""


@dataclass(frozen=True, slots=True)
class Used:
    """How much is taken."""

    requests: int
    hplms: int
    domains: int
    jobs: int
    uploads: int
    artifacts: int
    keys: int
    invitations: int


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit; `share` is what is taken of it, in 0..1, or None where that is not counted."""

    name: str
    figure: str
    note: str
    share: float | None = None

    @property
    def near(self) -> bool:
        """Whether it will soon be felt."""
        return self.share is not None and self.share >= NEAR


def limit_rows(quota: Quota, rates: Rates, used: Used) -> list[LimitRow]:
    """All limits of the tenant, those first that begin anew."""
    return [
        _counted("Infer requests today", used.requests, quota.max_requests_per_day, AT_MIDNIGHT),
        *_rates(rates),
        _counted("hPLMs", used.hplms, quota.max_hplms, "free again when one is deleted"),
        _counted("Domains", used.domains, quota.max_domains, "without those of the platform"),
        _counted("Jobs at work", used.jobs, quota.max_active_jobs, "free again when one ends"),
        _stored(used, quota.max_storage_bytes),
        _counted("API keys", used.keys, quota.max_api_keys, "that work; free again when one ends"),
        _counted("Invitations today", used.invitations, quota.max_invitations_per_day, AT_MIDNIGHT),
    ]


def _counted(name: str, used: int, most: int, note: str) -> LimitRow:
    return LimitRow(name, f"{used:,} of {most:,}", note, _share(used, most))


def _rates(rates: Rates) -> list[LimitRow]:
    told = (
        ("Infer requests a minute", rates.requests_per_minute),
        ("Tokens a minute", rates.tokens_per_minute),
        ("Other requests to the API a minute", rates.manage_per_minute),
    )
    return [LimitRow(name, f"at most {most:,}" if most else UNLIMITED, BY_THE_SECOND) for name, most in told]


def _stored(used: Used, most: int) -> LimitRow:
    stored = used.uploads + used.artifacts
    parts = f"uploads {filesizeformat(used.uploads)}, models and tables {filesizeformat(used.artifacts)}"
    return LimitRow(
        "Storage", f"{filesizeformat(stored)} of {filesizeformat(most)}", parts, _share(stored, most)
    )


def _share(used: int, most: int) -> float:
    return min(1.0, used / most) if most else 1.0
