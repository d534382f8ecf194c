"""Domains: the page of one, making one, updating one."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_http_methods

from frontend.access import TenantRequest, tenant_page
from frontend.forms.tree import DomainForm, TextForm
from frontend.pages import go, show
from frontend.presenters.models import model_rows
from frontend.presenters.versions import version_rows
from frontend.refusals import attempt
from tenants.models import Role
from versiontree.models import Domain, Version
from versiontree.selectors import domain_of, domain_visible_to, tree_for, versions_of
from versiontree.services.domains import domain_create, domain_update


@require_GET
@tenant_page()
def domain(request: TenantRequest, pk: int) -> HttpResponse:
    """A domain that the tenant sees, its versions, and the tenant's models that grow from it."""
    tenant = request.place.tenant
    domain = domain_visible_to(tenant, pk)
    versions = versions_of(domain).prefetch_related("aliases", "jobs")
    return show(request, "domains/domain.html", domain=domain, versions=version_rows(versions), models=models)


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def new(request: TenantRequest) -> HttpResponse:
    """Make a domain of the tenant's own; its first job's page follows."""
    form = DomainForm(request.place.tenant, request.POST or None, initial=request.GET.dict())
    version = attempt(form, lambda: _create(request, form)) if form.is_valid() else None
    if version is None:
        return show(request, "domains/new.html", form=form)
    return go(request, "job", first_job(version).pk)


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def update(request: TenantRequest, pk: int) -> HttpResponse:
    """A further version of a domain from more text; its first job's page follows."""
    domain = domain_of(request.place.tenant, pk)
    form = TextForm(request.place.tenant, request.POST or None)
    version = attempt(form, lambda: _update(request, domain, form)) if form.is_valid() else None
    if version is None:
        return show(request, "domains/update.html", form=form, domain=domain)
    return go(request, "job", first_job(version).pk)
