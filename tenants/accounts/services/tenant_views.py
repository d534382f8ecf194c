"""Read-only views of a tenant's pages by administrators. The audit log has the start and the end of each."""

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant, User
from tenants.accounts.permissions import require_permission
from tenants.accounts.selectors import tenant_by_slug
from tenants.audit.services import audit_record
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import tenant_scope

MAX_VIEW: Final = timedelta(hours=1)
PERMISSION: Final = "accounts.change_tenant"


@transaction.atomic
def tenant_view_start(*, tenant: Tenant, actor: User) -> datetime:
    """Record that the administrator opens the tenant's pages. Returns the time when the view expires.

    Raises ``forbidden`` without the permission to change tenants, and ``conflict`` if the tenant's data is
    being deleted.
    """
    require_permission(actor, PERMISSION)
    if tenant.deletion_requested_at is not None:
        raise HmiError(ErrorCode.CONFLICT, f"The data of {tenant.slug} is being deleted.")
    until = timezone.now() + MAX_VIEW
    with tenant_scope(tenant):
        audit_record(
            verb="tenant.view_start",
            subject=tenant.slug,
            tenant=tenant,
            actor=actor,
            detail={"until": until.isoformat(timespec="seconds")},
        )
    return until


def tenant_view_end(*, slug: str, actor: User, reason: str) -> Tenant:
    """Record that the view ended. ``reason`` is left, expired, signed out, or another tenant."""
    tenant = tenant_by_slug(slug)
    with tenant_scope(tenant):
        audit_record(
            verb="tenant.view_end", subject=slug, tenant=tenant, actor=actor, detail={"reason": reason}
        )
    return tenant


def viewed_tenant(*, slug: str, actor: User) -> Tenant:
    """The tenant of a view that has started, suspended or not.

    Raises ``forbidden`` if the administrator has lost the permission since, and ``not_found`` if the tenant's
    data is being deleted.
    """
    require_permission(actor, PERMISSION)
    tenant = tenant_by_slug(slug)
    if tenant.deletion_requested_at is not None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such tenant.", param="tenant")
    return tenant
