"""Permission checks. Not signed in: 401. Not a member: 404. A member without the permission: 403."""

from typing import Final

from django.contrib.auth.models import AnonymousUser
from rest_framework.request import Request
from structlog.contextvars import bind_contextvars

from tenants.accounts.models import ApiKey, Membership, Role, Scope, Tenant, User
from tenants.accounts.selectors import membership_of, tenant_by_slug
from tenants.base.errors import ErrorCode, HmiError, require_found

ROLE_OF_SCOPE: dict[Scope, Role] = {Scope.INFER: Role.VIEWER, Scope.MANAGE: Role.DEVELOPER}
"""The role with which a member may do what a key with the scope may."""

UNAUTHENTICATED_MESSAGE: Final = "Sign in, or send an API key, as the header Authorization: Bearer <key>."


def require_role(user: User | AnonymousUser, tenant: Tenant, role: str) -> Membership:
    """Return the user's membership, or raise unless it includes the role and the tenant is not suspended."""
    if not user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, UNAUTHENTICATED_MESSAGE)
    membership = require_found(membership_of(user, tenant), "tenant", param="tenant")
    if not Role(membership.role).includes(Role(role)):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This requires the role {role}. Your role in {tenant.slug} is {membership.role}.",
            details={"needs": str(role), "role": membership.role},
        )
    require_active(tenant)
    return membership


def require_staff(user: User | AnonymousUser) -> None:
    """Raise unless the user is active staff."""
    if not user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, "Sign in first.")
    if not (user.is_active and user.is_staff):
        raise HmiError(ErrorCode.FORBIDDEN, "Only administrators can do this.")


def require_permission(user: User | AnonymousUser, *permissions: str) -> None:
    """Raise unless the user is staff with one of these Django permissions.

    As in the admin, the permission to change rows includes the permission to view them.
    """
    require_staff(user)
    sufficient = {*permissions, *(name.replace(".view_", ".change_") for name in permissions)}
    if not any(user.has_perm(name) for name in sufficient):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This requires the permission {' or '.join(permissions)}. Ask an administrator for it.",
            details={"needs": list(permissions)},
        )


def require_scope(key: ApiKey, scope: str) -> None:
    """Raise unless the key has the scope and its tenant is not suspended."""
    if not key.allows(Scope(scope)):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This requires the scope {scope}. The key has: {', '.join(key.scopes)}.",
            details={"needs": str(scope), "scopes": key.scopes},
        )
    require_active(key.tenant)


def require_active(tenant: Tenant) -> None:
    """Raise if the tenant is suspended."""
    if tenant.is_suspended:
        raise HmiError(ErrorCode.FORBIDDEN, f"The tenant {tenant.slug} is suspended.")


def tenant_for(user: User | AnonymousUser, slug: str, role: str) -> Tenant:
    """Return the tenant with this slug, or raise unless the user has the role in it."""
    if not user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, UNAUTHENTICATED_MESSAGE)
    tenant = tenant_by_slug(slug)
    require_role(user, tenant, role)
    bind_contextvars(tenant=tenant.slug)
    return tenant


def request_tenant(request: Request, slug: str | None, scope: str, *, role: str | None = None) -> Tenant:
    """Return the tenant of a request: that of the key, or the one that a signed-in member names.

    A key may name only its own tenant. A member must name it. ``role`` is what a member needs, by default the
    role of the scope.
    """
    if isinstance(request.auth, ApiKey):
        if slug is not None and slug != request.auth.tenant.slug:
            raise HmiError(ErrorCode.NOT_FOUND, "There is no such tenant.", param="tenant")
        require_scope(request.auth, scope)
        return request.auth.tenant
    if not request.user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, UNAUTHENTICATED_MESSAGE)
    if slug is None:
        raise HmiError(
            ErrorCode.MISSING_FIELD,
            "Specify the tenant: /api/v1/tenants/<slug>/… or ?tenant=<slug>.",
            param="tenant",
        )
    return tenant_for(request.user, slug, role or ROLE_OF_SCOPE[Scope(scope)])


def request_actor(request: Request) -> ApiKey | User:
    """Return the API key or the signed-in user of a request."""
    if isinstance(request.auth, ApiKey):
        return request.auth
    if isinstance(request.user, User):
        return request.user
    raise HmiError(ErrorCode.UNAUTHENTICATED, UNAUTHENTICATED_MESSAGE)
