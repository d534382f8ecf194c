"""Deleting all data of a tenant: the part of the version tree, and the way through all steps."""

import logging
from contextlib import suppress
from typing import Final

from django.db import transaction
from django.db.models import Q

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenant_deletion import (
    tenant_anonymize,
    tenant_deletion_finish,
    tenant_rows_delete,
    tenants_being_deleted,
)
from tenants.base.advisory_lock import advisory_lock
from tenants.base.dispatch import UPLOADS_QUEUE, dispatch
from tenants.base.errors import HmiError, has_dependents
from tenants.datasets.services.stored_files import tenant_files_delete
from versiontree.jobs.models import ACTIVE, Job
from versiontree.jobs.services.control import job_cancel
from versiontree.transfer.services.takeouts import takeout_files_delete
from versiontree.tree.models import Alias, AliasMove, Artifact, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.services.garbage_collection import ArtifactName, artifacts_discard
from versiontree.tree.serving_manifest import manifest_publish_on_commit

DELETE_TENANTS_TASK: Final = "transfer.delete_tenants"
log = logging.getLogger(__name__)


def tenant_deletion_check(tenant: Tenant) -> None:
    """Hear that a tenant is to go (``tenants.base.hooks.tenant_deletion``): refuse with ``has_dependents``
    while versions of others stand on its own, else have a worker begin once that is committed."""
    standing = Version.unscoped.filter(parent__tenant=tenant).filter(Q(tenant=None) | ~Q(tenant=tenant))
    if found := list(standing.select_related("root", "domain__root", "hplm__tenant")):
        message = f"What others made stands on domains of {tenant.slug}; delete it first"
        raise has_dependents(message, found)
    transaction.on_commit(lambda: dispatch(DELETE_TENANTS_TASK, queue=UPLOADS_QUEUE))


def tenants_delete() -> None:
    """Go on with all tenants that leave; what goes wrong with one does not keep the others."""
    for tenant in tenants_being_deleted():
        try:
            tenant_delete_step(tenant=tenant)
        except Exception:
            log.exception("Deleting the data of %s did not get to its end", tenant.slug)


def tenant_delete_step(*, tenant: Tenant) -> bool:
    """Delete what is left of the tenant; false while jobs of it are being stopped, or another is at it."""
    with advisory_lock(f"leaving {tenant.pk}") as ours:
        if not ours or not _jobs_ended(tenant):
            return False
        _stop_serving(tenant)
        artifacts = _artifacts_of(tenant)
        tenant_files_delete(tenant=tenant)
        takeout_files_delete(tenant=tenant)
        tenant_anonymize(tenant=tenant)
        tenant_rows_delete(tenant=tenant)
        artifacts_discard(artifacts)
        done = tenant_deletion_finish(tenant=tenant)
    log.info("The data of %s is %s", tenant.slug, "deleted" if done else "not all deleted yet")
    return done


def _jobs_ended(tenant: Tenant) -> bool:
    """Whether no job is active any more; those that are, are asked to stop."""
    active = Job.objects.for_tenant(tenant).filter(state__in=ACTIVE)
    for job in active.filter(cancel_requested_at=None).select_related("tenant"):
        with suppress(HmiError):  # it ended meanwhile
            job_cancel(job=job, actor=None)
    return not active.exists()


@transaction.atomic
def _stop_serving(tenant: Tenant) -> None:
    """No alias, no ready version: inference workers hear of it, and the rows may be deleted."""
    AliasMove.objects.for_tenant(tenant).delete()
    Alias.objects.for_tenant(tenant).delete()
    ready = Version.objects.for_tenant(tenant).filter(state=VersionState.READY)
    ready.update(state=VersionState.RETIRED)
    manifest_publish_on_commit()


def _artifacts_of(tenant: Tenant) -> list[tuple[ArtifactName, int]]:
    """Those that its versions and evaluations refer to, with their sizes."""
    own = Q(version_links__version__tenant=tenant) | Q(evaluations__tenant=tenant)
    rows = Artifact.objects.filter(own).distinct().values_list("kind", "digest", "size")
    return [((kind, digest), size) for kind, digest, size in rows]
