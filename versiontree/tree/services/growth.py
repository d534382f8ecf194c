"""Growing: a further version of a domain with the fragments that its traffic missed often."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.models import JobKind
from versiontree.tree.models import Domain, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.services.domains import domain_head
from versiontree.tree.services.quota_reservations import quota_reserve_version
from versiontree.tree.services.settings_inheritance import config_inherited
from versiontree.tree.services.versions import JobPlan, version_create
from versiontree.tree.training_settings import settings_check

DEFAULT_SETTINGS: Final = {"min_count": 20, "min_tenants": 3, "max_fragments": 100_000}
"""A fragment that few tenants have might say whose text it is from, so it stays out of what all read."""


MIN_TENANTS: Final = 2
"""Less than this nobody may ask for where all read what is added."""


SHARING_COOLDOWN: Final = timedelta(minutes=10)
"""Long enough for what keeps the counts in step with the database to have come by."""


@transaction.atomic
def domain_grow(*, domain: Domain, actor: Actor, settings: Mapping[str, Any] | None = None) -> Version:
    """A version of the domain with a table of what was missed at least ``min_count`` times in all, by at
    least ``min_tenants`` tenants that share their counts; the ``max_fragments`` most missed of them.

    What counts is missed under any version of the domain, and of a tenant's domain what that tenant missed.
    Made with the lower layers of its newest version. Raises ``invalid_field`` and what ``domain_head``
    raises.
    """
    chosen = _growth_settings(domain, settings)
    quota_reserve_version(tenant=domain.tenant, jobs=1)
    above = domain_head(domain=domain)
    version = version_create(
        of=domain,
        root=above.root,
        parent=above,
        tenant=above.tenant,
        config={**config_inherited(above), "grown": chosen},
        plans=[JobPlan(JobKind.GROW, {"tables": _tables(domain), "settings": chosen})],
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


def tenants_sharing_counts() -> set[str]:
    """The slugs of the tenants whose counts may be kept, as they say now.

    A tenant that has stopped sharing is left out for a while even if it shares again: what was counted before
    must be gone first.
    """
    lately = timezone.now() - SHARING_COOLDOWN
    sharing = Tenant.objects.filter(shares_fragment_counts=True).exclude(stopped_sharing_at__gt=lately)
    return set(sharing.values_list("slug", flat=True))


def tenants_to_grow_from(owner: Tenant | None) -> set[str]:
    """The slugs of the tenants whose counts a domain of this owner grows from: a tenant's from its own alone.

    The counts of a table do not tell: an imported domain has the tables of the one it was exported from.
    """
    sharing = tenants_sharing_counts()
    return sharing if owner is None else sharing & {owner.slug}


def _growth_settings(domain: Domain, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    chosen = DEFAULT_SETTINGS | settings_check(JobKind.GROW, settings)
    if domain.tenant_id is not None:
        # Only what that tenant missed is added, and only that tenant reads it.
        return {**chosen, "min_tenants": 1}
    if int(chosen["min_tenants"]) < MIN_TENANTS:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"A domain that all tenants read grows only by what at least {MIN_TENANTS} of them missed.",
            param="min_tenants",
        )
    return chosen


def _tables(domain: Domain) -> list[str]:
    """The tables of all versions of the domain, newest first: traffic is counted under the table of the
    version that a model stands on, also where newer versions do not read that table any more."""
    links = VersionArtifact.unscoped.filter(version__domain=domain, role=Role.PLOT)
    digests = links.order_by("-version__number").values_list("artifact__digest", flat=True)
    return list(dict.fromkeys(digests))
