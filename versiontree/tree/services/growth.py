"""Grow domains: create a version whose table has the fragments that requests often missed."""

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
"""A fragment of few tenants could reveal whose text it is from, so shared tables leave it out."""
MIN_TENANTS: Final = 2
"""The least ``min_tenants`` of a table that all tenants read."""
SHARING_COOLDOWN: Final = timedelta(minutes=10)
"""Long enough for the periodic task that deletes the counts of tenants that stopped sharing."""


@transaction.atomic
def domain_grow(*, domain: Domain, actor: Actor, settings: Mapping[str, Any] | None = None) -> Version:
    """Create a version of the domain with a table of often missed fragments.

    A fragment is added if it was missed ``min_count`` times in all, by ``min_tenants`` tenants that share
    their counts, and if it is among the ``max_fragments`` most missed ones. Misses under all versions of the
    domain count; for a tenant's domain only those of that tenant. Raises ``invalid_field`` and what
    ``domain_head`` raises.
    """
    chosen = _growth_settings(domain, settings)
    quota_reserve_version(tenant=domain.tenant, jobs=1)
    above = domain_head(domain=domain)
    version = version_create(
        owner=domain,
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
    """The slugs of the tenants that share their miss counts.

    A tenant that stopped sharing is left out for ``SHARING_COOLDOWN`` even if it shares again: its earlier
    counts must be deleted first.
    """
    recently = timezone.now() - SHARING_COOLDOWN
    sharing = Tenant.objects.filter(shares_fragment_counts=True).exclude(stopped_sharing_at__gt=recently)
    return set(sharing.values_list("slug", flat=True))


def tenants_to_grow_from(owner: Tenant | None) -> set[str]:
    """The slugs of the tenants whose counts a domain of this owner grows from: only the owner, if a tenant.

    Filtering counts by table is not enough: an imported domain has the same tables as its original.
    """
    sharing = tenants_sharing_counts()
    return sharing if owner is None else sharing & {owner.slug}


def _growth_settings(domain: Domain, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    chosen = DEFAULT_SETTINGS | settings_check(JobKind.GROW, settings)
    if domain.tenant_id is not None:
        # Only this tenant's misses are added, and only this tenant reads the table.
        return {**chosen, "min_tenants": 1}
    if int(chosen["min_tenants"]) < MIN_TENANTS:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"A domain of all tenants needs min_tenants of at least {MIN_TENANTS}.",
            param="min_tenants",
        )
    return chosen


def _tables(domain: Domain) -> list[str]:
    """The digests of the tables of all versions of the domain, newest first.

    Misses are counted under the table of a model's parent, which newer versions may not read any more.
    """
    links = VersionArtifact.unscoped.filter(version__domain=domain, role=Role.PLOT)
    digests = links.order_by("-version__number").values_list("artifact__digest", flat=True)
    return list(dict.fromkeys(digests))
