"""Access to the pages of a tenant: its members by role, and administrators who opened a read-only view.

To others the pages do not exist.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, cast

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails
from structlog.contextvars import bind_contextvars

from frontend.tenant_view import TenantView, end_view, stored_view
from tenants.accounts.models import Membership, Role, Tenant, User
from tenants.accounts.permissions import require_role
from tenants.accounts.selectors import tenants_of
from tenants.accounts.services.tenant_views import viewed_tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import enter_tenant

View = Callable[..., HttpResponseBase]

READ_METHODS = {"GET", "HEAD", "OPTIONS"}
READ_ONLY = "You view these pages as an administrator and cannot change anything. Leave the view first."
VIEW_EXPIRED = (
    "Your view of these pages has ended. Open it again from the tenant's page in the administration."
)


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """The tenant of a page, the user's membership in it, and all tenants of the user.

    An administrator's view has ``view_until``, when it ends. Its membership is a viewer's and not in the
    database.
    """

    tenant: Tenant
    membership: Membership
    tenants: Sequence[Tenant]
    view_until: datetime | None = None

    @property
    def can_write(self) -> bool:
        """Whether the user is a developer or an owner of the tenant."""
        return Role(self.membership.role).includes(Role.DEVELOPER)

    @property
    def is_owner(self) -> bool:
        """Whether the user is an owner of the tenant."""
        return Role(self.membership.role).includes(Role.OWNER)


class TenantRequest(HttpRequest):
    """A request that passed `tenant_member_required`."""

    user: User
    htmx: HtmxDetails
    access: TenantAccess


def tenant_member_required(role: Role = Role.VIEWER) -> Callable[[View], View]:
    """Decorate a view of `/t/<slug>/...`: it gets `request.access` instead of the slug.

    Anonymous users are redirected to the login page. Others get not_found if they are not members, and
    forbidden if their role is below `role`.
    """

    def wrap(view: View) -> View:
        @wraps(view)
        def page(request: HttpRequest, slug: str, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _redirect_to_login(request)
            opened = stored_view(request)
            if opened is not None and opened.slug == slug:
                return view(_enter_view(request, opened, role), **kwargs)
            tenant_request = cast("TenantRequest", request)
            tenant_request.access = tenant_access(tenant_request.user, slug, role)
            return view(tenant_request, **kwargs)

        return page

    return wrap


def tenant_access(user: User, slug: str, role: Role) -> TenantAccess:
    """Return the access of a user to a tenant, and enter its scope. Raises not_found or forbidden."""
    tenants = tenants_of(user)
    tenant = next((tenant for tenant in tenants if tenant.slug == slug), None)
    if tenant is None:
        raise HmiError(ErrorCode.NOT_FOUND, "This page does not exist, or you have no access to it.")
    membership = require_role(user, tenant, role)
    enter_tenant(tenant)
    bind_contextvars(tenant=tenant.slug)
    return TenantAccess(tenant, membership, tenants)


def _enter_view(request: HttpRequest, opened: TenantView, role: Role) -> TenantRequest:
    """Return the request of an administrator. Refuse everything but reading what a viewer may read."""
    tenant_request = cast("TenantRequest", request)
    user = tenant_request.user
    if opened.has_expired:
        end_view(request, user, "expired")
        raise HmiError(ErrorCode.FORBIDDEN, VIEW_EXPIRED)
    tenant = viewed_tenant(slug=opened.slug, actor=user)
    membership = Membership(tenant=tenant, user=user, role=Role.VIEWER)
    tenant_request.access = TenantAccess(tenant, membership, (tenant,), opened.until)
    enter_tenant(tenant)
    bind_contextvars(tenant=tenant.slug)
    if request.method not in READ_METHODS or not Role.VIEWER.includes(role):
        raise HmiError(ErrorCode.FORBIDDEN, READ_ONLY)
    return tenant_request


def _redirect_to_login(request: HttpRequest) -> HttpResponseBase:
    """Redirect to the login page; a fragment redirects the page around it."""
    if getattr(request, "htmx", False):
        return HttpResponseClientRedirect(reverse("account_login"))
    return redirect_to_login(request.get_full_path())
