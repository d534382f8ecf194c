"""The version tree."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_page
from frontend.pages import show
from frontend.presenters.tree import tree_of
from versiontree.selectors import tree_for


@require_GET
@tenant_page()
def tree(request: TenantRequest) -> HttpResponse:
    """All roots with what the platform and the tenant grew from them."""
    tenant = request.place.tenant
    return show(request, "tree/page.html", nodes=tree_of(tenant, tree_for(tenant)))
