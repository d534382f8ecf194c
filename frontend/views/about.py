"""What a model is for, in its makers' words, and the model card that its versions leave with."""

from django.db import transaction
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_http_methods

from frontend.access import TenantRequest, tenant_page
from frontend.forms.about import AboutForm
from frontend.pages import go, show
from frontend.refusals import attempt
from tenants.accounts.models import Role
from tenants.base.errors import not_found
from versiontree.transfer.services.version_export import version_card
from versiontree.tree.models import Hplm
from versiontree.tree.selectors.versions import hplm_of, versions_of
from versiontree.tree.services.descriptions import hplm_describe
from versiontree.tree.services.licences import hplm_licence


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def about(request: TenantRequest, name: str) -> HttpResponse:
    """Say what it is for, and how it may be used."""
    hplm = hplm_of(request.place.tenant, name)
    said = {"description": hplm.description, "license": hplm.license}
    form = AboutForm(request.POST or None, initial=said)
    if not form.is_valid() or attempt(form, lambda: _say(request, hplm, form)) is None:
        return show(request, "models/about.html", hplm=hplm, form=form)
    return go(request, "model", hplm.name, said="That is what is told of it now.")


@require_GET
@tenant_page()
def card(request: TenantRequest, name: str, number: int) -> HttpResponse:
    """The model card of a version, as its archive has it."""
    hplm = hplm_of(request.place.tenant, name)
    version = versions_of(hplm).filter(number=number).first()
    if version is None:
        raise not_found("version")
    return show(request, "models/card.html", hplm=hplm, version=version, card=version_card(version))


@transaction.atomic
def _say(request: TenantRequest, hplm: Hplm, form: AboutForm) -> Hplm:
    """What was changed, and only that."""
    cleaned = form.cleaned_data
    if "description" in form.changed_data:
        hplm_describe(hplm=hplm, description=cleaned["description"], actor=request.user)
    if "license" in form.changed_data:
        hplm_licence(hplm=hplm, license=cleaned["license"], actor=request.user)
    return hplm
