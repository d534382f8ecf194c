"""The quick start of the API: a key, a call of one of the tenant's models, and where the reference is."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.presenters.sample_calls import sample_calls
from frontend.shortcuts import render_page
from tenants.accounts.selectors import api_keys_active
from tenants.base.errors import HmiError
from versiontree.tree.selectors.callable_hplms import callable_hplm, callable_hplms


@require_GET
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponse:
    """Calls of the model in the query, or of the first one that is ready."""
    tenant, refusal = request.access.tenant, None
    offers = callable_hplms(tenant)
    chosen = offers[0] if offers else None
    if reference := request.GET.get("model", "").strip():
        try:
            chosen = callable_hplm(tenant, reference)
        except HmiError as error:
            refusal = error.message
    return render_page(
        request,
        "api/page.html",
        offers=offers,
        chosen=chosen,
        refusal=refusal,
        calls=sample_calls(request, tenant, chosen) if chosen else [],
        keys=api_keys_active(tenant) if request.access.can_write else [],
        base_url=request.build_absolute_uri("/").rstrip("/"),
    )
