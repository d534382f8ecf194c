"""The first model of a root: the task head of its checkpoint, which is served once the root is ready."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from django.db import transaction

from tenants.accounts.models import Tenant
from tenants.audit.services import audit_record
from tenants.base.errors import ErrorCode, HmiError, require_found
from versiontree.names import require_slug
from versiontree.tree.checkpoints import checkpoint_head_check
from versiontree.tree.models import Hplm, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.selectors.lineage import FIRST_MODEL, FROM_CHECKPOINT
from versiontree.tree.services.quota_reservations import quota_reserve_hplm, quota_reserve_version
from versiontree.tree.services.version_completion import artifacts_attach, stored_artifact, version_finish
from versiontree.tree.services.versions import version_create

log = logging.getLogger(__name__)

HEAD: Final = "head"


def first_model_check(*, reference: str, pairs: bool, source: str) -> dict[str, Any]:
    """What a root's config says of the first model ``tenant/name``. Call it in a transaction: it locks the
    tenant's quota.

    Raises ``invalid_field`` (not such a name, or a checkpoint without a task head), ``not_found`` (the
    tenant), ``conflict`` (the name), ``quota_exceeded``.
    """
    slug, separator, name = reference.partition("/")
    if not separator:
        raise HmiError(ErrorCode.INVALID_FIELD, "Name the first model as tenant/model.", param=FIRST_MODEL)
    require_slug(name, param=FIRST_MODEL)
    found = Tenant.objects.filter(slug=slug, deletion_requested_at=None).first()
    tenant = require_found(found, "tenant", param=FIRST_MODEL)
    checkpoint_head_check(source)
    quota_reserve_version(tenant=tenant, jobs=0)
    quota_reserve_hplm(tenant=tenant, name=name, param=FIRST_MODEL)
    return {"tenant": tenant.pk, "name": name, "pairs": pairs}


def first_model_create(*, version: Version, report: Mapping[str, Any]) -> None:
    """Create the model that the config of a root's version asks for, with its version 1 ready. Nothing for
    other versions.

    ``report``: of the job that read the checkpoint. Call it in the transaction that makes the root's version
    ready. What speaks against the model by now, such as a name that was taken meanwhile, does not hold up the
    root: it becomes part of the metrics of its version.
    """
    asked = version.config.get(FIRST_MODEL)
    if asked is None:
        return
    try:
        with transaction.atomic():
            _create(version, asked, report[HEAD])
    except HmiError as error:
        log.warning("The first model of %s was not created: %s", version, error.message)
        failed = {FIRST_MODEL: {"error": error.message}}
        Version.unscoped.filter(pk=version.pk).update(metrics={**version.metrics, **failed})


def _create(root: Version, asked: Mapping[str, Any], head: Mapping[str, Any]) -> None:
    found = Tenant.objects.filter(pk=asked["tenant"], deletion_requested_at=None).first()
    tenant = require_found(found, "tenant", param=FIRST_MODEL)
    quota_reserve_version(tenant=tenant, jobs=0)
    quota_reserve_hplm(tenant=tenant, name=asked["name"], param=FIRST_MODEL)
    hplm = Hplm.unscoped.create(
        tenant=tenant,
        name=asked["name"],
        task=head["task"],
        license=root.root.license,
        created_by=root.created_by,
    )
    config = {"labels": head["labels"], "settings": {}, FROM_CHECKPOINT: True}
    if head["pairs"]:
        config["dataset"] = {"pairs": True}
    model = version_create(
        owner=hplm,
        root=root.root,
        parent=root,
        tenant=tenant,
        config=config,
        plans=[],
        actor=root.created_by,
    )
    link = VersionArtifact.unscoped.select_related("artifact").get(version=root, role=Role.HPLM)
    artifacts_attach(version=model, artifacts=[(Role.HPLM, stored_artifact(link.artifact))])
    version_finish(version=model, metrics={})
    model.refresh_from_db()
    detail = {"version": model.pk, "digest": model.digest, "root": str(root)}
    audit_record(
        verb="version.from_checkpoint",
        subject=str(model),
        tenant=tenant,
        actor=root.created_by,
        detail=detail,
    )
