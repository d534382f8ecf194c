"""Compact domains: create a version whose single table merges those of the versions above it.

The earlier versions and the models on them keep their tables. What is built on the new version reads one
table instead of many, with the same answers.
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
"""Longer chains of tables are compacted: every lookup searches the tables in turn."""


@transaction.atomic
def domain_compact(*, domain: Domain, actor: Actor) -> Version:
    """Create a version of the domain whose table merges all domain tables that its newest version reads.

    Raises ``not_found`` if there are fewer than two, and what ``domain_head`` raises.
    """
    quota_reserve_version(tenant=domain.tenant, jobs=1)
    above = domain_head(domain=domain)
    tables = domain_tables(above)
    if len(tables) < 2:
        raise not_found("chain of tables to compact", param="domain")
    merged = [version.pk for version, _ in tables]
    version = version_create(
        owner=domain,
        root=above.root,
        parent=above,
        tenant=above.tenant,
        config={**config_inherited(above), COMPACTS: merged},
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
    """Compact each domain whose newest version reads too many tables. Returns how many were started."""
    started = 0
    for domain in Domain.unscoped.select_related("tenant", "root"):
        # Not possible now (a version is being built, the quota is full): the next run tries again.
        with suppress(HmiError):
            started += _compact_if_due(domain)
    return started


@transaction.atomic
def _compact_if_due(domain: Domain) -> bool:
    head = domain_head(domain=domain)
    # A failed compaction is not repeated: a person must look at it and retry it.
    failed = Version.unscoped.filter(domain=domain, number__gt=head.number, config__has_key=COMPACTS).exists()
    if failed or len(domain_tables(head)) <= MAX_CHAIN_LENGTH:
        return False
    version = domain_compact(domain=domain, actor=None)
    log.info("%s reads too many tables; version %d compacts them", domain, version.number)
    return True
