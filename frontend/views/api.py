"""The former address of the quick start of the API, which is part of the page of keys."""

from django.http import HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required


@require_GET
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponseRedirect:
    """Redirect to the page of keys, with the model in the query."""
    address = reverse("frontend:keys", args=[request.access.tenant.slug])
    query = request.GET.urlencode(safe="@:")
    return HttpResponseRedirect(f"{address}?{query}" if query else address)
