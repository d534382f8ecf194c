"""Growing: a further version of a domain with the fragments that its traffic missed often."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction

from tenants.models import Tenant
from tenants.services.audit import Actor, audit_record
from versiontree.chains import COMPACTS
from versiontree.models import Domain, Version
from versiontree.models.job import JobKind
from versiontree.services.planting import JobPlan, room_for_version, version_plant
from versiontree.services.tips import domain_tables, domain_tip
from versiontree.training_settings import settings_check

DEFAULTS: Final = {"minimum_count": 20, "minimum_tenants": 3, "most": 100_000}
"""A fragment that few tenants have might say whose text it is from, so it stays out of what all read."""


@transaction.atomic
def domain_grow(*, domain: Domain, actor: Actor, settings: Mapping[str, Any] | None = None) -> Version:
    """A version of the domain with a table of what was missed at least ``minimum_count`` times in all, by at
    least ``minimum_tenants`` tenants that share their counts; the ``most`` missed of them.

    Made with the lower layers of its newest version. Raises ``invalid_field`` and what ``domain_tip`` raises.
    """
    chosen = DEFAULTS | settings_check(JobKind.GROW, settings)
    if domain.tenant_id is not None:
        # Only that tenant's own traffic comes to its domain, and only that tenant reads its table.
        chosen["minimum_tenants"] = 1
    room_for_version(tenant=domain.tenant, jobs=1)
    above = domain_tip(domain=domain)
    tables = [artifact.digest for _, artifact in domain_tables(above)]
    inherited = {name: value for name, value in above.config.items() if name != COMPACTS}
    version = version_plant(
        of=domain,
        root=above.root,
        parent=above,
        tenant=above.tenant,
        config={**inherited, "grown": chosen},
        plans=[JobPlan(JobKind.GROW, {"tables": tables, "settings": chosen})],
        actor=actor,
    )
    audit_record(
        verb="domain.grow",
        subject=domain.name,
        tenant=domain.tenant,
        actor=actor,
        detail={"version": version.number, "parent": above.pk},
    )
    return version


def tenants_that_share() -> set[str]:
    """The slugs of the tenants whose counts may be used, as they say now."""
    return set(Tenant.objects.filter(shares_fragment_counts=True).values_list("slug", flat=True))
