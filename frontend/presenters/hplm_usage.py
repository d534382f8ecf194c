"""How much one model is asked."""

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import date, timedelta

from tenants.usage.models import UsageDay
from tenants.usage.selectors.usage import UsageTotal


def summed(days: Collection[UsageDay]) -> UsageTotal:
    """Add up days of one model."""
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
