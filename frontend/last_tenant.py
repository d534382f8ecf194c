"""The navigation on pages that belong to no tenant: help and errors."""

import re
from typing import Final
from urllib.parse import urlsplit

from django.http import HttpRequest

from frontend.access import TenantAccess, tenant_access
from tenants.accounts.models import Role
from tenants.accounts.selectors import tenants_of

TENANT_PATH: Final = re.compile(r"^/t/([-\w]+)/")
LAST_TENANT: Final = "last_tenant"


def enter_last_tenant(request: HttpRequest) -> TenantAccess | None:
    """Set `request.access` to the tenant that the user came from, else to the first; None without a tenant.

    Sessions remember that tenant, so that it stays from one page to the next.
    """
    known: TenantAccess | None = getattr(request, "access", None)
    if known is not None or not request.user.is_authenticated:
        return known
    slugs = [tenant.slug for tenant in tenants_of(request.user)]
    wanted = [_slug_in(request.path), _slug_in(request.headers.get("Referer", ""))]
    slug = next(
        (slug for slug in (*wanted, request.session.get(LAST_TENANT), *slugs[:1]) if slug in slugs), None
    )
    if slug is None:
        return None
    if request.session.get(LAST_TENANT) != slug:
        request.session[LAST_TENANT] = slug
    access = tenant_access(request.user, slug, Role.VIEWER)
    request.access = access  # type: ignore[attr-defined]
    return access


def _slug_in(address: str) -> str:
    found = TENANT_PATH.match(urlsplit(address).path)
    return found[1] if found else ""
