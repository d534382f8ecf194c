"""Retire roots, and set whether tenants can call them."""

from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError, require_found
from versiontree.tree.models import Root
from versiontree.tree.selectors.lineage import dependents_below
from versiontree.tree.serving_manifest import manifest_publish_on_commit


@transaction.atomic
def root_retire(*, root: Root, actor: Actor) -> Root:
    """Retire a root, so that no domains, models, fine-tunings or imports start on it or on its domains.

    Its domains and models are served, updated and rebased as before. Raises ``not_found``, and
    ``invalid_transition`` if it is retired already.
    """
    rows = Root.objects.select_for_update(no_key=True).filter(pk=root.pk)
    locked = require_found(rows.first(), "root", param="root")
    if locked.retired_at is not None:
        raise HmiError(ErrorCode.INVALID_TRANSITION, f"{locked.name} is retired already.")
    locked.retired_at = timezone.now()
    locked.save(update_fields=["retired_at"])
    below = dependents_below(locked.pk)
    detail = {"domains": below.domain_count, "models": below.hplm_count, "tenants": below.tenant_count}
    audit_record(verb="root.retire", subject=locked.name, tenant=None, actor=actor, detail=detail)
    manifest_publish_on_commit()
    return locked


@transaction.atomic
def root_set_callable(*, root: Root, is_callable: bool, actor: Actor) -> bool:
    """Set whether tenants can call the root by its name. Models and domains on it are served either way.

    Returns False if it was so already.
    """
    changed = Root.objects.filter(pk=root.pk).exclude(is_callable=is_callable).update(is_callable=is_callable)
    if not changed:
        return False
    root.is_callable = is_callable
    detail = {"callable": is_callable}
    audit_record(verb="root.callable", subject=root.name, tenant=None, actor=actor, detail=detail)
    manifest_publish_on_commit()
    return True
