"""Tenants: create, rename, suspend, resume, and change their settings."""

import re
from collections.abc import Mapping

from django.db import IntegrityError, transaction
from django.utils import timezone

from tenants.accounts.models import Membership, Role, Tenant, User
from tenants.accounts.models.tenant import MAX_WEIGHT, MIN_WEIGHT, SLUG_PATTERN, SLUG_RULE, WEIGHT_RULE
from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import serving_changed
from tenants.usage.models import LoggedRequest, Quota
from tenants.usage.services.quotas import quota_lock


@transaction.atomic
def tenant_create(*, slug: str, name: str, owner: User | None = None, actor: Actor = None) -> Tenant:
    """Create a tenant with the default quota and optionally an owner. ``conflict`` if the slug is taken."""
    tenant = Tenant(slug=clean_slug(slug), name=clean_name(name, max_length=200))
    try:
        with transaction.atomic():
            tenant.save(force_insert=True)
    except IntegrityError as error:
        raise HmiError(
            ErrorCode.CONFLICT, f"There is already a tenant with the slug {slug!r}.", param="slug"
        ) from error
    Quota.unscoped.create(tenant=tenant)
    if owner is not None:
        Membership.unscoped.create(tenant=tenant, user=owner, role=Role.OWNER)
    audit_record(verb="tenant.create", subject=tenant.slug, tenant=tenant, actor=actor or owner)
    return tenant


@transaction.atomic
def tenant_suspend(*, tenant: Tenant, actor: Actor, reason: str = "") -> bool:
    """Refuse all requests of the tenant. Returns whether this call suspended it."""
    now = timezone.now()
    if not Tenant.objects.filter(pk=tenant.pk, suspended_at=None).update(suspended_at=now):
        return False
    tenant.suspended_at = now
    audit_record(
        verb="tenant.suspend", subject=tenant.slug, tenant=tenant, actor=actor, detail={"reason": reason}
    )
    return True


@transaction.atomic
def tenant_resume(*, tenant: Tenant, actor: Actor) -> bool:
    """End the suspension, unless the tenant is being deleted. Returns whether this call ended it."""
    suspended = Tenant.objects.filter(pk=tenant.pk, suspended_at__isnull=False, deletion_requested_at=None)
    if not suspended.update(suspended_at=None):
        return False
    tenant.suspended_at = None
    audit_record(verb="tenant.resume", subject=tenant.slug, tenant=tenant, actor=actor)
    return True


@transaction.atomic
def tenant_rename(*, tenant: Tenant, name: str, actor: Actor) -> bool:
    """Change the name of a tenant, but not its slug. Returns whether it changed."""
    cleaned = clean_name(name, max_length=200)
    before = Tenant.objects.select_for_update().get(pk=tenant.pk).name
    tenant.name = cleaned
    if cleaned == before:
        return False
    Tenant.objects.filter(pk=tenant.pk).update(name=cleaned)
    detail = change(before, cleaned)
    audit_record(verb="tenant.rename", subject=tenant.slug, tenant=tenant, actor=actor, detail=detail)
    return True


@transaction.atomic
def quota_change(*, tenant: Tenant, limits: Mapping[str, int | None], actor: Actor) -> bool:
    """Change limits of a tenant's quota, by field name. Returns whether any changed."""
    quota = quota_lock(tenant=tenant)
    changed = {name: limit for name, limit in limits.items() if getattr(quota, name) != limit}
    if not changed:
        return False
    detail = {name: change(getattr(quota, name), limit) for name, limit in changed.items()}
    Quota.objects.for_tenant(tenant).update(**changed)
    audit_record(verb="quota.change", subject=tenant.slug, tenant=tenant, actor=actor, detail=detail)
    return True


@transaction.atomic
def tenant_set_answer_checks(*, tenant: Tenant, checks: bool, actor: Actor) -> bool:
    """Turn the checks of a sample of a tenant's answers on or off. Returns whether it changed."""
    if not Tenant.objects.filter(pk=tenant.pk, checks_answers=not checks).update(checks_answers=checks):
        return False
    tenant.checks_answers = checks
    detail = {"checks_answers": change(not checks, checks)}
    audit_record(
        verb="tenant.set_answer_checks", subject=tenant.slug, tenant=tenant, actor=actor, detail=detail
    )
    return True


@transaction.atomic
def tenant_set_auto_rebase(*, tenant: Tenant, rebases: bool, actor: Actor) -> bool:
    """Turn on or off that models follow new versions of their domains. Returns whether it changed."""
    if not Tenant.objects.filter(pk=tenant.pk, auto_rebase=not rebases).update(auto_rebase=rebases):
        return False
    tenant.auto_rebase = rebases
    detail = {"auto_rebase": change(not rebases, rebases)}
    audit_record(
        verb="tenant.set_auto_rebase", subject=tenant.slug, tenant=tenant, actor=actor, detail=detail
    )
    return True


@transaction.atomic
def tenant_set_request_texts(*, tenant: Tenant, keeps: bool, actor: Actor) -> bool:
    """Turn the keeping of texts in the request log on or off. Returns whether it changed.

    Turning it off deletes the texts; entries stay.
    """
    rows = Tenant.objects.filter(pk=tenant.pk, keeps_request_texts=not keeps)
    if not rows.update(keeps_request_texts=keeps):
        return False
    tenant.keeps_request_texts = keeps
    if not keeps:
        LoggedRequest.objects.for_tenant(tenant).filter(texts__isnull=False).update(texts=None)
    detail = {"keeps_request_texts": change(not keeps, keeps)}
    audit_record(
        verb="tenant.set_request_texts", subject=tenant.slug, tenant=tenant, actor=actor, detail=detail
    )
    return True


@transaction.atomic
def tenant_set_weight(*, tenant: Tenant, weight: float, actor: Actor) -> bool:
    """Change the tenant's share of the inference workers. Returns whether it changed.

    Raises ``invalid_field`` for a weight outside of the range.
    """
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        raise HmiError(ErrorCode.INVALID_FIELD, WEIGHT_RULE, param="weight")
    before = Tenant.objects.select_for_update().get(pk=tenant.pk).weight
    tenant.weight = weight
    if weight == before:
        return False
    Tenant.objects.filter(pk=tenant.pk).update(weight=weight)
    detail = {"weight": change(before, weight)}
    audit_record(verb="tenant.set_weight", subject=tenant.slug, tenant=tenant, actor=actor, detail=detail)
    serving_changed()
    return True


def clean_slug(slug: str) -> str:
    """The slug, or ``invalid_field``."""
    if not re.fullmatch(SLUG_PATTERN, slug):
        raise HmiError(ErrorCode.INVALID_FIELD, SLUG_RULE, param="slug")
    return slug


def clean_name(name: str, *, max_length: int = 100) -> str:
    """The name without surrounding white space, or ``missing_field`` / ``invalid_field``."""
    cleaned = name.strip()
    if not cleaned:
        raise HmiError(ErrorCode.MISSING_FIELD, "A name is required.", param="name")
    if len(cleaned) > max_length or not cleaned.isprintable():
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"A name is at most {max_length} printable characters, on one line.",
            param="name",
        )
    return cleaned
