"""What the versions of an alias answered since its canary began."""

from tenants.accounts.models import Tenant
from tenants.usage.models import AnswerDay
from tenants.usage.selectors import answers_by_day
from tenants.usage.services.answer_counts import COUNTED
from versiontree.tree.models import Alias, Version


def canary_answers(tenant: Tenant, alias: Alias, version: Version) -> AnswerDay:
    """The counts of the version since the alias's canary began, as those of one day (one query).

    What the version answered earlier on the first day is left out.
    """
    assert alias.canary_started_at is not None
    days = answers_by_day(tenant, alias.hplm.name, version.number, alias.canary_started_at.date())
    before = alias.canary_counts_before.get(str(version.number), {})
    sums = {name: sum(getattr(day, name) for day in days) for name in COUNTED}
    return AnswerDay(**{name: max(0, count - before.get(name, 0)) for name, count in sums.items()})
