"""Retire roots."""

from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError, require_found
from versiontree.tree.models import Root
from versiontree.tree.selectors.lineage import dependents_below


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
    return locked
