"""A tenant's usage of the month as the home page shows it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.template.defaultfilters import filesizeformat

from frontend.presenters.charts import Bar, counted_bars
from tenants.models import Quota, UsageDay


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the head of a page, with a remark below it."""

    name: str
    figure: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over a period, and the requests of each hPLM."""

    requests: int
    inputs: int
    tokens: int
    failed: int
    bars: list[Bar]


def usage_sum(days: Iterable[UsageDay]) -> Usage:
    """Add up days."""
    total: Counter[str] = Counter()
    by_model: Counter[str] = Counter()
    for day in days:
        total.update(requests=day.requests, inputs=day.inputs, tokens=day.tokens, failed=day.failed)
        by_model[day.hplm_name] += day.requests
    return Usage(total["requests"], total["inputs"], total["tokens"], total["failed"], counted_bars(by_model))


def usage_tiles(
    usage: Usage, *, hplms: int, ready: int, max_hplms: int, jobs: int, max_jobs: int
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
    bars = [Bar(name, _share(used, most), f"{used:,} of {most:,}") for name, used, most in counted]
    limit = quota.max_storage_bytes
    return [
        *bars,
        Bar("Storage", _share(stored, limit), f"{filesizeformat(stored)} of {filesizeformat(limit)}"),
    ]


def _share(used: int, most: int) -> float:
    return min(1.0, used / most) if most else 1.0
