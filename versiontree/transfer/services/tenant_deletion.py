"""Delete all data of a tenant, in steps that can be repeated."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenant_deletion import (
    tenant_anonymize,
    tenant_deletion_finish,
    tenant_rows_delete,
)
from tenants.base import hooks
from tenants.base.background_jobs import BackgroundKind, Reporter, RunLater
from tenants.base.errors import HmiError, has_dependents
from tenants.datasets.services.stored_files import tenant_files_delete
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import ACTIVE, Job
from versiontree.jobs.services.background import background_job_create
from versiontree.jobs.services.control import job_cancel
from versiontree.transfer.archive.conversion_cache import conversions_delete
from versiontree.transfer.services.takeouts import takeout_files_delete
from versiontree.tree.models import Alias, AliasMove, Artifact, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.services.garbage_collection import ArtifactName, artifacts_discard, job_folders_delete
from versiontree.tree.serving_manifest import manifest_publish_on_commit

log = logging.getLogger(__name__)


def tenant_deletion_check(tenant: Tenant) -> None:
    """Create the job that deletes a tenant's data. The job is the platform's, so that it outlives them.

    Receiver of ``tenants.base.hooks.tenant_deletion``. Raises ``has_dependents`` if versions of others build
    on the tenant's domains.
    """
    dependents = Version.unscoped.filter(parent__tenant=tenant).filter(Q(tenant=None) | ~Q(tenant=tenant))
    if found := list(dependents.select_related("root", "domain__root", "hplm__tenant")):
        message = f"Versions of others build on domains of {tenant.slug}; delete them first"
        raise has_dependents(message, found)
    background_job_create(BackgroundKind.TENANT_DELETION, str(tenant.pk), None)


def tenant_deletion_run(tenant_id: str, _: Reporter) -> Mapping[str, Any]:
    """Delete all data of a tenant. Raises ``RunLater`` if some is left, for any reason: it never gives up."""
    tenant = Tenant.objects.get(pk=tenant_id)
    try:
        done = tenant_delete_step(tenant=tenant)
    except Exception as error:
        log.exception("Deleting the data of %s failed", tenant.slug)
        raise RunLater from error
    if not done:
        raise RunLater
    return {}


def tenant_delete_step(*, tenant: Tenant) -> bool:
    """Delete what is left of the tenant. False while its jobs are stopping."""
    if not _jobs_ended(tenant):
        return False
    _stop_serving(tenant)
    artifacts = _artifacts_of(tenant)
    tenant_files_delete(tenant=tenant)
    takeout_files_delete(tenant=tenant)
    job_folders_delete(tenant=tenant)
    conversions_delete(ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)), tenant=tenant)
    hooks.tenant_erasure(tenant)
    tenant_anonymize(tenant=tenant)
    tenant_rows_delete(tenant=tenant)
    artifacts_discard(artifacts)
    done = tenant_deletion_finish(tenant=tenant)
    log.info("The data of %s is %s", tenant.slug, "deleted" if done else "not all deleted yet")
    return done


def _jobs_ended(tenant: Tenant) -> bool:
    """Cancel the tenant's active jobs. Returns whether there were none."""
    active = Job.objects.for_tenant(tenant).filter(state__in=ACTIVE)
    for job in active.filter(cancel_requested_at=None).select_related("tenant"):
        with suppress(HmiError):  # it ended meanwhile
            job_cancel(job=job, actor=None)
    return not active.exists()


@transaction.atomic
def _stop_serving(tenant: Tenant) -> None:
    """Delete aliases and retire versions, so that the rows can be deleted, and publish the manifest."""
    AliasMove.objects.for_tenant(tenant).delete()
    Alias.objects.for_tenant(tenant).delete()
    ready = Version.objects.for_tenant(tenant).filter(state=VersionState.READY)
    ready.update(state=VersionState.RETIRED)
    manifest_publish_on_commit()


def _artifacts_of(tenant: Tenant) -> list[tuple[ArtifactName, int]]:
    """The artifacts of the tenant's versions and evaluations, with their sizes."""
    own = Q(version_links__version__tenant=tenant) | Q(evaluations__tenant=tenant)
    rows = Artifact.objects.filter(own).distinct().values_list("kind", "digest", "size")
    return [((kind, digest), size) for kind, digest, size in rows]
