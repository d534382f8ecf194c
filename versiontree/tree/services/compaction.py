"""Compacting: a further version of a domain whose one table holds those of the versions before it.

Nothing that a version pins is changed: the versions before keep their tables and whoever stands on them reads
those. Whoever builds on the new version reads one table instead of many, and gets the same answers.
"""

import logging
from contextlib import suppress
from typing import Final

from django.db import transaction

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import HmiError, not_found
from versiontree.jobs.models import JobKind
from versiontree.tree.models import Domain, Version
from versiontree.tree.selectors.lineage import COMPACTS, domain_tables
from versiontree.tree.services.domains import domain_head
from versiontree.tree.services.quota_reservations import quota_reserve_version
from versiontree.tree.services.settings_inheritance import config_inherited
from versiontree.tree.services.versions import JobPlan, version_create

log = logging.getLogger(__name__)

MAX_CHAIN_LENGTH: Final = 4
"""More tables than these on the way to the root are compacted: each costs every lookup that misses in it."""


@transaction.atomic
def domain_compact(*, domain: Domain, actor: Actor) -> Version:
    """A version of the domain whose table holds all tables of domains that its newest version reads.

    Raises ``not_found`` when there are not two of them, and what ``domain_head`` raises.
    """
    quota_reserve_version(tenant=domain.tenant, jobs=1)
    above = domain_head(domain=domain)
    tables = domain_tables(above)
    if len(tables) < 2:
        raise not_found("chain of tables to compact", param="domain")
    held = [version.pk for version, _ in tables]
    version = version_create(
        of=domain,
        root=above.root,
        parent=above,
        tenant=above.tenant,
        config={**config_inherited(above), COMPACTS: held},
        plans=[JobPlan(JobKind.COMPACT, {"plots": [artifact.digest for _, artifact in tables]})],
        actor=actor,
    )
    audit_record(
        verb="domain.compact",
        subject=domain.name,
        tenant=domain.tenant,
        actor=actor,
        detail={"version": version.number, "parent": above.pk, "tables": len(tables)},
    )
    return version


def domains_compact_due() -> int:
    """Compact every domain whose newest version reads too many tables; returns how many were begun."""
    begun = 0
    for domain in Domain.unscoped.select_related("tenant", "root"):
        # A version being built, a full quota, somebody else who was first: there will be another time.
        with suppress(HmiError):
            begun += _compact_if_due(domain)
    return begun


@transaction.atomic
def _compact_if_due(domain: Domain) -> bool:
    tip = domain_head(domain=domain)
    tried = Version.unscoped.filter(domain=domain, number__gt=tip.number, config__has_key=COMPACTS).exists()
    # One that failed waits for a person to look at it and retry it.
    if tried or len(domain_tables(tip)) <= MAX_CHAIN_LENGTH:
        return False
    version = domain_compact(domain=domain, actor=None)
    log.info("%s reads too many tables; version %d compacts them", domain, version.number)
    return True
