"""All data of a tenant in one file."""

from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from frontend.access import TenantRequest, tenant_page
from frontend.downloads import file_saved
from frontend.pages import act, go, show
from tenants.accounts.models import Role
from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.selectors import takeout_of, takeouts_of
from versiontree.transfer.services.takeouts import takeout_fetch, takeout_path, takeout_request


@require_http_methods(["GET", "POST"])
@never_cache
@tenant_page(Role.OWNER)
def panel(request: TenantRequest) -> HttpResponse:
    """What there is, as a part of the settings; POST asks for a new one."""
    tenant = request.place.tenant
    if request.method == "POST":
        act(request, lambda: takeout_request(tenant=tenant, actor=request.user))
        return go(request, "settings")
    takeouts = takeouts_of(tenant)
    return show(request, "settings/takeouts.html", takeouts=takeouts, contact=settings.HMI_CONTACT)


@require_GET
@tenant_page(Role.OWNER)
def file(request: TenantRequest, pk: UUID) -> HttpResponseBase:
    """The file; who fetched it is written down."""
    takeout = takeout_of(request.place.tenant, pk)
    try:
        response = file_saved(
            takeout_path(takeout), f"{request.place.tenant.slug}-{takeout.created_at:%Y-%m-%d}.zip"
        )
    except FileNotFoundError as error:
        raise HmiError(ErrorCode.NOT_FOUND, "This file is gone; ask for a new one.") from error
    takeout_fetch(takeout=takeout, actor=request.user)
    return response
