"""Versions side by side: of one model, or of several."""

from collections.abc import Sequence
from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.presenters.comparison import MAX_VERSIONS, MIN_VERSIONS, comparison_of
from frontend.shortcuts import redirect_to, render_page
from tenants.accounts.models import Tenant
from tenants.base.errors import not_found
from versiontree.tree.models import Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.resolution import parse_reference
from versiontree.tree.selectors.versions import aliases_of, hplm_of, versions_of

WRONG_NUMBER: Final = f"Choose {MIN_VERSIONS} to {MAX_VERSIONS} of them to compare."


@require_GET
@tenant_member_required()
def compare(request: TenantRequest) -> HttpResponse:
    """The versions that `?version=name:number` names, two to four. With `?model=`, its newest versions are
    added where fewer are chosen. Two versions of one model have a page with the rows that changed, too."""
    tenant, model = request.access.tenant, request.GET.get("model", "")
    chosen = [_version(tenant, reference) for reference in dict.fromkeys(request.GET.getlist("version"))]
    if model:
        newest = versions_of(hplm_of(tenant, model))[: MIN_VERSIONS + len(chosen)]
        chosen += [one for one in newest if one not in chosen][: max(0, MIN_VERSIONS - len(chosen))]
    if not MIN_VERSIONS <= len(chosen) <= MAX_VERSIONS:
        messages.error(request, WRONG_NUMBER)
        return redirect_to(request, "model", model) if model else redirect_to(request, "models")
    if len({version.hplm_id for version in chosen}) == 1:
        chosen.sort(key=lambda version: version.number)
        if len(chosen) == MIN_VERSIONS:
            older, newer = chosen
            return redirect_to(request, "version_compare", newer.name, newer.number, older.number)
    return render_page(request, "versions/side_by_side.html", comparison=comparison_of(chosen))


@require_POST
@tenant_member_required()
def compare_models(request: TenantRequest) -> HttpResponse:
    """Compare the default versions of the chosen models; the newest version of one that has none."""
    tenant = request.access.tenant
    versions = [_default(tenant, name) for name in dict.fromkeys(request.POST.getlist("chosen"))]
    return redirect(f"{reverse('frontend:compare', args=[tenant.slug])}?{_query(versions)}")


def _version(tenant: Tenant, reference: str) -> Version:
    """Return the version that name:number names. Raises ``invalid_field``, ``not_found``."""
    wanted = parse_reference(reference)
    model = hplm_of(tenant, wanted.hplm)
    found = versions_of(model).filter(number=wanted.number or 0).first()
    if found is None or wanted.tenant not in (None, tenant.slug):
        raise not_found("version of this model", param="version")
    return found


def _default(tenant: Tenant, name: str) -> Version:
    model = hplm_of(tenant, name)
    default = aliases_of(model).filter(name=DEFAULT_ALIAS).first()
    return default.version if default else versions_of(model)[0]


def _query(versions: Sequence[Version]) -> str:
    return urlencode({"version": [f"{version.name}:{version.number}" for version in versions]}, doseq=True)
