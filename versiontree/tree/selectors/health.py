"""Whether a model is well: of the requests to it in the last days, how many failed."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Exists, F, OuterRef, QuerySet, Sum

from tenants.accounts.models import Tenant
from tenants.usage.models import UsageDay
from tenants.usage.selectors.quotas import usage_of
from versiontree.tree.models import Alias, Hplm
from versiontree.tree.models.alias import DEFAULT_ALIAS

HEALTH_DAYS: Final = 7
ILL_SHARE: Final = 0.05
"""From this share of failed requests on, a model is not well."""


def usage_of_late(tenant: Tenant, hplms: Iterable[Hplm]) -> QuerySet[UsageDay]:
    """By what the health of these models is judged: their usage in the last days, and nothing of what another
    of the same name was asked, which is deleted now."""
    return _of_late(tenant).filter(model_name__in=[hplm.name for hplm in hplms])


def failing(tenant: Tenant) -> QuerySet[Hplm]:
    """The tenant's models that answer, and of which too many requests failed in the last days."""
    summed = _of_late(tenant).order_by().values("model_name")
    counted = summed.annotate(asked_for=Sum("requests"), went_wrong=Sum("failed"))
    ill = counted.filter(asked_for__gt=0, went_wrong__gte=F("asked_for") * ILL_SHARE)
    answering = Alias.unscoped.filter(hplm=OuterRef("pk"), name=DEFAULT_ALIAS)
    live = Hplm.objects.for_tenant(tenant).filter(Exists(answering), deleted_at=None)
    return live.filter(name__in=ill.values("model_name"))


def _of_late(tenant: Tenant) -> QuerySet[UsageDay]:
    since = datetime.now(UTC).date() - timedelta(days=HEALTH_DAYS)
    named = Hplm.objects.for_tenant(tenant).filter(deleted_at=None, name=OuterRef("model_name"))
    return usage_of(tenant, since).filter(Exists(named.filter(created_at__date__lte=OuterRef("day"))))
