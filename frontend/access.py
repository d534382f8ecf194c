"""Who may see a page of a tenant: its members. To strangers there is nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails
from structlog.contextvars import bind_contextvars

from tenants.accounts.models import Membership, Role, Tenant, User
from tenants.accounts.permissions import require_role
from tenants.accounts.selectors import tenants_of
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import enter_tenant

View = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True)
class TenantMember:
    """Where a signed-in user is: the tenant of the page, the user's role there, and where else to go."""

    tenant: Tenant
    membership: Membership
    tenants: Sequence[Tenant]

    @property
    def may_write(self) -> bool:
        """Whether the user may start work and change things here."""
        return Role(self.membership.role).includes(Role.DEVELOPER)

    @property
    def owns(self) -> bool:
        """Whether the user is an owner here."""
        return Role(self.membership.role).includes(Role.OWNER)


class TenantRequest(HttpRequest):
    """A request that has passed `tenant_page`."""

    user: User
    htmx: HtmxDetails
    place: TenantMember


def tenant_page(role: Role = Role.VIEWER) -> Callable[[View], View]:
    """Wrap a view of `/t/<slug>/...`: it gets `request.place` instead of the slug.

    Anonymous users go to sign in, strangers get not_found, members below `role` get forbidden.
    """

    def wrap(view: View) -> View:
        @wraps(view)
        def page(request: HttpRequest, slug: str, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _sign_in_first(request)
            placed = cast("TenantRequest", request)
            placed.place = _place_of(placed.user, slug, role)
            return view(placed, **kwargs)

        return page

    return wrap


def _place_of(user: User, slug: str, role: Role) -> TenantMember:
    tenants = tenants_of(user)
    tenant = next((tenant for tenant in tenants if tenant.slug == slug), None)
    if tenant is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such page, or it is not yours to see.")
    membership = require_role(user, tenant, role)
    enter_tenant(tenant)
    bind_contextvars(tenant=tenant.slug)
    return TenantMember(tenant, membership, tenants)


def _sign_in_first(request: HttpRequest) -> HttpResponseBase:
    """A page goes to sign in and comes back; a fragment takes its whole page there."""
    if getattr(request, "htmx", False):
        return HttpResponseClientRedirect(reverse("account_login"))
    return redirect_to_login(request.get_full_path())
