"""Publishing and retiring domains: from when and until when others may build upon them."""

from django.db import transaction
from django.utils import timezone

from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError, not_found
from tenants.base.hooks import has_dependents
from versiontree.jobs.models import ACTIVE, Job
from versiontree.tree.models import Domain, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.dependents import dependents_of
from versiontree.tree.services.version_state import version_move


@transaction.atomic
def domain_publish(*, domain: Domain, actor: Actor) -> bool:
    """Let tenants see a domain of the platform's and build upon it; False when they do already.

    Raises ``not_found`` (absent, or a tenant's), ``model_not_ready`` while no version of it is ready, and
    ``conflict`` when the domain that it grows from is not published.
    """
    locked = _lock(domain)
    if locked.tenant_id is not None:
        raise not_found("domain of the platform's", param="domain")
    if locked.published_at is not None:
        return False
    versions = Version.unscoped.filter(domain=locked)
    if not versions.filter(state=VersionState.READY).exists():
        raise HmiError(
            ErrorCode.MODEL_NOT_READY, f"No version of the domain {locked.name} is ready.", param="domain"
        )
    hidden = versions.filter(number=1, parent__domain__published_at=None).exclude(parent__domain=None)
    if above := hidden.values_list("parent__domain__name", flat=True).first():
        raise HmiError(
            ErrorCode.CONFLICT, f"{locked.name} grows from {above}: publish that first.", param="domain"
        )
    Domain.unscoped.filter(pk=locked.pk).update(published_at=timezone.now())
    audit_record(verb="domain.publish", subject=locked.name, tenant=None, actor=actor)
    return True


@transaction.atomic
def domain_retire(*, domain: Domain, actor: Actor) -> int:
    """Let nobody build upon a domain any more; returns how many versions were retired. What stands on it is
    answered as before, and its tables stay as long as something does.

    Raises ``has_dependents`` while jobs of it are active, ``not_found``, and ``invalid_transition`` when no
    version of it is ready.
    """
    locked = _lock(domain)
    if active := list(Job.unscoped.filter(version__domain=locked, state__in=ACTIVE)):
        raise has_dependents(f"Jobs of {locked.name} are still active; cancel them first, or wait", active)
    ready = Version.unscoped.filter(domain=locked, state=VersionState.READY).order_by("pk")
    retired = sum(
        version_move(version_id=pk, from_state=VersionState.READY, to=VersionState.RETIRED)
        for pk in list(ready.values_list("pk", flat=True))
    )
    if not retired:
        raise HmiError(ErrorCode.INVALID_TRANSITION, f"No version of {locked.name} is ready to be retired.")
    standing = dependents_of(locked)
    audit_record(
        verb="domain.retire",
        subject=locked.name,
        tenant=locked.tenant,
        actor=actor,
        detail={"versions": retired, "domains": standing.domain_count, "models": standing.hplm_count},
    )
    return retired


def _lock(domain: Domain) -> Domain:
    locked = Domain.unscoped.select_for_update(no_key=True, of=("self",)).filter(pk=domain.pk)
    found = locked.select_related("tenant").first()
    if found is None:
        raise not_found("domain", param="domain")
    return found
