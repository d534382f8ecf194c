"""The search over models, data, jobs and pages of a tenant."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_member_required
from frontend.presenters.search import search_results
from frontend.shortcuts import render_page


@require_GET
@tenant_member_required()
def results(request: TenantRequest) -> HttpResponse:
    """What has the words in its name, as a part of a page. Without words: the pages."""
    words = request.GET.get("q", "").strip()[:100]
    return render_page(request, "search/results.html", groups=search_results(request.access, words))
