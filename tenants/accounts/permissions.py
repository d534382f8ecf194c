"""Who may do what. A stranger gets 404, a member without the right 403, nobody at all 401."""

from typing import Final

from django.contrib.auth.models import AnonymousUser
from rest_framework.request import Request
from structlog.contextvars import bind_contextvars

from tenants.accounts.models import ApiKey, Membership, Role, Scope, Tenant, User
from tenants.accounts.selectors import membership_of, tenant_by_slug
from tenants.base.errors import ErrorCode, HmiError

ROLE_OF_SCOPE: dict[Scope, Role] = {Scope.INFER: Role.VIEWER, Scope.MANAGE: Role.DEVELOPER}
"""What a member needs in order to do what a key does with the scope."""

NOBODY: Final = "Sign in, or send an API key, as the header Authorization: Bearer <key>."


def require_role(user: User | AnonymousUser, tenant: Tenant, role: str) -> Membership:
    """The user's membership, if it includes the role; else 401, 404 or 403. Suspended tenants: 403."""
    if not user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, NOBODY)
    membership = membership_of(user, tenant)
    if membership is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such tenant.", param="tenant")
    if not Role(membership.role).includes(Role(role)):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This needs the role {role}; you are {membership.role} of {tenant.slug}.",
            details={"needs": str(role), "role": membership.role},
        )
    require_active(tenant)
    return membership


def require_staff(user: User | AnonymousUser) -> None:
    """Only staff look after what belongs to the platform; others get 403, nobody 401."""
    if not user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, "Sign in first.")
    if not (user.is_active and user.is_staff):
        raise HmiError(ErrorCode.FORBIDDEN, "Only the platform's staff may do this.")


def require_permission(user: User | AnonymousUser, *permissions: str) -> None:
    """Staff who have one of these permissions, as Django names them; others get 403, nobody 401. As in the
    administration, the right to change rows includes the right to see them."""
    require_staff(user)
    enough = {*permissions, *(name.replace(".view_", ".change_") for name in permissions)}
    if not any(user.has_perm(name) for name in enough):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This needs the permission {' or '.join(permissions)}, which an administrator may give you.",
            details={"needs": list(permissions)},
        )


def require_scope(key: ApiKey, scope: str) -> None:
    """The key has the scope and its tenant is not suspended; else 403."""
    if not key.allows(Scope(scope)):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This needs a key with the scope {scope}; this one has {', '.join(key.scopes)}.",
            details={"needs": str(scope), "scopes": key.scopes},
        )
    require_active(key.tenant)


def require_active(tenant: Tenant) -> None:
    """The tenant is not suspended; else 403."""
    if tenant.is_suspended:
        raise HmiError(ErrorCode.FORBIDDEN, f"The tenant {tenant.slug} is suspended.")


def tenant_for(user: User | AnonymousUser, slug: str, role: str) -> Tenant:
    """The tenant with this slug, in which the user has the role; else 401, 404 or 403."""
    if not user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, NOBODY)
    tenant = tenant_by_slug(slug)
    require_role(user, tenant, role)
    bind_contextvars(tenant=tenant.slug)
    return tenant


def request_tenant(request: Request, slug: str | None, scope: str, *, role: str | None = None) -> Tenant:
    """Whose request this is: the key's tenant, or the one a signed-in member names.

    A key may name its own tenant and no other. A member always names it: there is no "current tenant".
    ``role`` is what a member needs, by default what the scope stands for.
    """
    if isinstance(request.auth, ApiKey):
        if slug is not None and slug != request.auth.tenant.slug:
            raise HmiError(ErrorCode.NOT_FOUND, "There is no such tenant.", param="tenant")
        require_scope(request.auth, scope)
        return request.auth.tenant
    if not request.user.is_authenticated:
        raise HmiError(ErrorCode.UNAUTHENTICATED, NOBODY)
    if slug is None:
        raise HmiError(
            ErrorCode.MISSING_FIELD,
            "Say which tenant: /api/v1/tenants/<slug>/… or ?tenant=<slug>.",
            param="tenant",
        )
    return tenant_for(request.user, slug, role or ROLE_OF_SCOPE[Scope(scope)])


def request_actor(request: Request) -> ApiKey | User:
    """Who acts in this request: the key, or the person signed in."""
    if isinstance(request.auth, ApiKey):
        return request.auth
    if isinstance(request.user, User):
        return request.user
    raise HmiError(ErrorCode.UNAUTHENTICATED, NOBODY)
