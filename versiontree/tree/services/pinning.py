"""Pinning models: inference workers keep them in memory before all others."""

from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import not_found
from versiontree.tree.models import Hplm
from versiontree.tree.serving_manifest import manifest_publish_on_commit


@transaction.atomic
def hplm_pin(*, hplm: Hplm, actor: Actor) -> bool:
    """Keep the versions that its aliases mean in the memory of inference workers; False when they are kept
    already. Raises ``not_found`` (deleted)."""
    _require_living(hplm)
    rows = Hplm.unscoped.filter(pk=hplm.pk, pinned_at=None)
    return _done(hplm, "model.pin", actor) if rows.update(pinned_at=timezone.now()) else False


@transaction.atomic
def hplm_unpin(*, hplm: Hplm, actor: Actor) -> bool:
    """Let it go the way of the others; False when it was not pinned. Raises ``not_found`` (deleted)."""
    _require_living(hplm)
    rows = Hplm.unscoped.filter(pk=hplm.pk, pinned_at__isnull=False)
    return _done(hplm, "model.unpin", actor) if rows.update(pinned_at=None) else False


def _require_living(hplm: Hplm) -> None:
    rows = Hplm.unscoped.select_for_update(no_key=True).filter(pk=hplm.pk, deleted_at=None)
    if not rows.exists():
        raise not_found("model", param="model")


def _done(hplm: Hplm, verb: str, actor: Actor) -> bool:
    audit_record(verb=verb, subject=str(hplm), tenant=hplm.tenant, actor=actor)
    manifest_publish_on_commit()
    return True
