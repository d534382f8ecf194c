"""A tenant's usage of the month as the home page shows it."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from django.template.defaultfilters import filesizeformat

from frontend.presenters.charts import Bar
from frontend.presenters.limits import NEAR
from tenants.models import Quota, UsageDay
from tenants.usage_selectors import UsageTotal


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the head of a page, with a remark below it."""

    name: str
    figure: str
    note: str = ""


def summed(days: Collection[UsageDay]) -> UsageTotal:
    """Add up days of one hPLM."""
    return UsageTotal(
        requests=sum(day.requests for day in days),
        inputs=sum(day.inputs for day in days),
        tokens=sum(day.tokens for day in days),
        failed=sum(day.failed for day in days),
    )


def daily_requests(days: Iterable[UsageDay], since: date, until: date) -> list[int]:
    """Requests of each day from the first to the last, those without any too."""
    found: Counter[date] = Counter()
    for day in days:
        found[day.day] += day.requests
    return [found[since + timedelta(days=n)] for n in range((until - since).days + 1)]


def usage_tiles(
    usage: UsageTotal, *, hplms: int, ready: int, max_hplms: int, jobs: int, max_jobs: int
) -> list[Tile]:
    """The tiles of the home page."""
    return [
        Tile("hPLMs ready", f"{ready:,}", f"{hplms:,} of {max_hplms:,} made"),
        Tile("Jobs at work", f"{jobs:,}", f"at most {max_jobs:,} at once"),
        Tile("Requests this month", f"{usage.requests:,}", f"{usage.failed:,} failed"),
        Tile("Texts this month", f"{usage.inputs:,}", f"{usage.tokens:,} tokens"),
    ]


def quota_bars(quota: Quota, *, hplms: int, domains: int, jobs: int, requests: int, stored: int) -> list[Bar]:
    """How much of each part of the quota is taken; `stored` is in bytes."""
    counted = (
        ("hPLMs", hplms, quota.max_hplms),
        ("Domains", domains, quota.max_domains),
        ("Jobs at work", jobs, quota.max_active_jobs),
        ("Requests today", requests, quota.max_requests_per_day),
    )
    limit = quota.max_storage_bytes
    return [
        *(_limited(name, used, most, f"{used:,} of {most:,}") for name, used, most in counted),
        _limited("Storage", stored, limit, f"{filesizeformat(stored)} of {filesizeformat(limit)}"),
    ]


def _limited(name: str, used: int, most: int, figure: str) -> Bar:
    share = _share(used, most)
    return Bar(name, share, figure, near=share >= NEAR)


def _share(used: int, most: int) -> float:
    return min(1.0, used / most) if most else 1.0
