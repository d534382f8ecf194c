"""Domains: the page of one, making one, updating one."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.tree import DomainForm, TextForm
from frontend.presenters.create_model import EstimateShown, estimate_shown
from frontend.presenters.jobs import first_job_of
from frontend.presenters.models import hplm_rows
from frontend.presenters.version_page import version_context
from frontend.presenters.versions import is_ready, version_rows
from frontend.shortcuts import paginate, redirect_to, render_page, run_action, try_write
from tenants.accounts.models import Role
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.models import Domain, Version
from versiontree.tree.selectors.browsing import Branch, hplm_summaries, hplms_search
from versiontree.tree.selectors.estimates import domain_estimate
from versiontree.tree.selectors.lineage import lineage_of
from versiontree.tree.selectors.versions import domain_of, domains_visible_to, versions_of
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.growth import domain_grow
from versiontree.tree.training_settings import DEFAULT_ALPHA, DEFAULT_VECTORS

HOLDS = "lower layers and lookup table"


@require_GET
@tenant_member_required()
def domain(request: TenantRequest, pk: int) -> HttpResponse:
    """A domain that the tenant sees, its versions, and the tenant's models that grow from it."""
    tenant = request.access.tenant
    domain = domains_visible_to(tenant).filter(pk=pk).first()
    if domain is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such domain.")
    found = list(versions_of(domain).prefetch_related("aliases", "jobs"))
    newest = next((version for version in found if is_ready(version)), None)
    learned = version_context(tenant, lineage_of(newest)) if newest else {}
    versions = version_rows(found)
    page = paginate(request, hplms_search(tenant, branch=Branch(domain.root_id, domain.pk)))
    own = domain.tenant_id == tenant.pk
    context: dict[str, Any] = {
        "versions": versions,
        "hplms": hplm_rows(hplm_summaries(tenant, page)),
        "page": page,
        "own": own,
        "newest": newest,
        "learned": learned,
    }
    context["compactable"] = own and sum(table.of_domain for table in learned.get("tables", [])) > 1
    return render_page(request, "domains/domain.html", domain=domain, **context)


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def new(request: TenantRequest) -> HttpResponse:
    """Make a domain of the tenant's own; its first job's page follows."""
    form = DomainForm(request.access.tenant, request.POST or None, initial=request.GET.dict())
    version = try_write(form, lambda: _create(request, form)) if form.is_valid() else None
    if version is None:
        estimate = _estimate(request, DomainForm, None)
        return render_page(request, "domains/new.html", form=form, estimate=estimate)
    return redirect_to(request, "job", first_job_of(version).pk)


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def update(request: TenantRequest, pk: int) -> HttpResponse:
    """A further version of a domain from more text; its first job's page follows."""
    domain = domain_of(request.access.tenant, pk)
    form = TextForm(request.access.tenant, request.POST or None, initial=request.GET.dict())
    version = try_write(form, lambda: _update(request, domain, form)) if form.is_valid() else None
    if version is None:
        newest = next((one for one in versions_of(domain) if is_ready(one)), None)
        estimate = _estimate(request, TextForm, newest) if newest else None
        return render_page(request, "domains/update.html", form=form, domain=domain, estimate=estimate)
    return redirect_to(request, "job", first_job_of(version).pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def compact(request: TenantRequest, pk: int) -> HttpResponse:
    """A further version whose one table holds those of the domain; its job's page follows."""
    domain = domain_of(request.access.tenant, pk)
    return _begin(request, domain, lambda: domain_compact(domain=domain, actor=request.user))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def grow(request: TenantRequest, pk: int) -> HttpResponse:
    """A further version with a table of what its traffic missed; its job's page follows."""
    domain = domain_of(request.access.tenant, pk)
    return _begin(request, domain, lambda: domain_grow(domain=domain, actor=request.user))


def _begin(request: TenantRequest, domain: Domain, write: Callable[[], Version]) -> HttpResponse:
    made: list[Version] = []
    if run_action(request, lambda: made.append(write())):
        return redirect_to(request, "job", first_job_of(made[0]).pk)
    return redirect_to(request, "domain", domain.pk)


def _estimate(request: TenantRequest, form: type[TextForm], above: Version | None) -> EstimateShown | None:
    """What it would take on top of a version, by what was filled in so far; of a new domain that is the
    parent that was chosen. Nothing before there is enough to tell."""
    filled = form(request.access.tenant, {"alpha": DEFAULT_ALPHA} | (request.POST or request.GET).dict())
    filled.full_clean()
    chosen = filled.cleaned_data
    parent = above or chosen.get("parent")
    if parent is None or not chosen.get("corpus") or chosen.get("alpha") is None:
        return None
    before = above.config if above else {}
    estimate = domain_estimate(
        parent=parent,
        corpus=chosen["corpus"],
        alpha=chosen["alpha"],
        settings=filled.settings(),
        vectors=filled.plot_settings().get("vectors", before.get("vectors", DEFAULT_VECTORS)),
    )
    return estimate_shown(estimate, holds=HOLDS)


def _create(request: TenantRequest, form: DomainForm) -> Version:
    cleaned = form.cleaned_data
    return domain_create(
        tenant=request.access.tenant,
        parent=cleaned["parent"],
        name=cleaned["name"],
        description=cleaned["description"],
        corpus=cleaned["corpus"],
        alpha=cleaned["alpha"],
        settings=form.settings(),
        **form.plot_settings(),
        actor=request.user,
    )


def _update(request: TenantRequest, domain: Domain, form: TextForm) -> Version:
    cleaned = form.cleaned_data
    return domain_update(
        domain=domain,
        corpus=cleaned["corpus"],
        alpha=cleaned["alpha"],
        settings=form.settings(),
        **form.plot_settings(),
        actor=request.user,
    )
