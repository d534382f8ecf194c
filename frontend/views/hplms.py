"""Making and updating hPLMs."""

from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from frontend.access import TenantRequest, tenant_page
from frontend.forms.tree import HplmForm, HplmUpdateForm
from frontend.pages import go, show
from frontend.presenters.jobs import first_job_of
from frontend.refusals import attempt
from tenants.models import Role
from versiontree.models import Hplm, Version
from versiontree.selectors import hplm_of
from versiontree.services.hplms import hplm_create, hplm_update


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def new(request: TenantRequest) -> HttpResponse:
    """Make an hPLM; its first job's page follows."""
    form = HplmForm(request.place.tenant, request.POST or None, initial=request.GET.dict())
    version = attempt(form, lambda: _create(request, form)) if form.is_valid() else None
    if version is None:
        return show(request, "hplms/new.html", form=form)
    return go(request, "job", first_job_of(version).pk)


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def update(request: TenantRequest, name: str) -> HttpResponse:
    """A further version of an hPLM from new data; its first job's page follows."""
    hplm = hplm_of(request.place.tenant, name)
    form = HplmUpdateForm(request.place.tenant, request.POST or None, task=hplm.task)
    version = attempt(form, lambda: _update(request, hplm, form)) if form.is_valid() else None
    if version is None:
        return show(request, "hplms/update.html", form=form, hplm=hplm)
    return go(request, "job", first_job_of(version).pk)


def _create(request: TenantRequest, form: HplmForm) -> Version:
    cleaned = form.cleaned_data
    return hplm_create(
        tenant=request.place.tenant,
        name=cleaned["name"],
        parent=cleaned["parent"],
        dataset=cleaned["dataset"],
        settings=form.settings(),
        actor=request.user,
    )


def _update(request: TenantRequest, hplm: Hplm, form: HplmUpdateForm) -> Version:
    cleaned = form.cleaned_data
    promote = cleaned["auto_promote"]
    return hplm_update(hplm=hplm, dataset=cleaned["dataset"], auto_promote=promote, actor=request.user)
