"""Domains: their page, creation, updates and compaction."""

from collections import Counter
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.tree import DomainForm, DomainUpdateForm
from frontend.presenters.create_model import EstimateShown, estimate_shown
from frontend.presenters.domains import domain_size, gain_rows
from frontend.presenters.jobs import first_job_of
from frontend.presenters.models import model_rows
from frontend.presenters.version_page import version_context
from frontend.presenters.versions import is_ready, version_rows
from frontend.shortcuts import action_result, paginate, redirect_to, render_page, submit_form
from tenants.accounts.models import Role
from tenants.base.plurals import counted
from versiontree.tree.models import Domain, Version
from versiontree.tree.selectors.browsing import Branch, hplm_summaries, hplms_search
from versiontree.tree.selectors.domain_gains import domain_gains
from versiontree.tree.selectors.estimates import domain_estimate
from versiontree.tree.selectors.lineage import lineage_of
from versiontree.tree.selectors.rebases import hplms_on, rebase_offers
from versiontree.tree.selectors.versions import domain_of, domain_visible_to, versions_of
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.rebases import hplms_rebase


@require_GET
@tenant_member_required()
def domain(request: TenantRequest, pk: int) -> HttpResponse:
    """The page of a domain: the tenant's models on it, what they gain, its versions, and how it was made."""
    tenant = request.access.tenant
    domain = domain_visible_to(tenant, pk)
    found = list(versions_of(domain).prefetch_related("aliases", "jobs"))
    newest = next((version for version in found if is_ready(version)), None)
    learned = version_context(tenant, lineage_of(newest)) if newest else {}
    versions = version_rows(found)
    page = paginate(request, hplms_search(tenant, branch=Branch(domain.root_id, domain.pk)))
    own = domain.tenant_id == tenant.pk
    context: dict[str, Any] = {
        "versions": versions,
        "models": model_rows(hplm_summaries(tenant, page)),
        "page": page,
        "own": own,
        "newest": newest,
        "learned": learned,
        "size": domain_size(learned.get("tables", [])),
        "gains": gain_rows(domain_gains(tenant, domain)) if page.paginator.count else [],
    }
    context["rebases"] = rebase_offers(hplms_on(domain, tenant)) if request.access.can_write else []
    context["compactable"] = own and sum(table.of_domain for table in learned.get("tables", [])) > 1
    return render_page(request, "domains/domain.html", domain=domain, **context)


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def new(request: TenantRequest) -> HttpResponse:
    """Create a domain, then redirect to its first job."""
    form = DomainForm(request.access.tenant, request.POST or None, initial=request.GET.dict())
    version = submit_form(form, lambda: _create(request, form))
    if version is None:
        estimate = _estimate(request, DomainForm, None)
        return render_page(request, "domains/new.html", form=form, estimate=estimate)
    return redirect_to(request, "job", first_job_of(version).pk)


@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def update(request: TenantRequest, pk: int) -> HttpResponse:
    """Train a version of a domain on more text, then redirect to its first job."""
    domain = domain_of(request.access.tenant, pk)
    form = DomainUpdateForm(request.access.tenant, request.POST or None, initial=request.GET.dict())
    version = submit_form(form, lambda: _update(request, domain, form))
    if version is None:
        newest = next((one for one in versions_of(domain) if is_ready(one)), None)
        estimate = _estimate(request, DomainUpdateForm, newest) if newest else None
        return render_page(request, "domains/update.html", form=form, domain=domain, estimate=estimate)
    return redirect_to(request, "job", first_job_of(version).pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def compact(request: TenantRequest, pk: int) -> HttpResponse:
    """Create a version that merges the lookup tables of the domain, then redirect to its job."""
    domain = domain_of(request.access.tenant, pk)
    version = action_result(request, lambda: domain_compact(domain=domain, actor=request.user))
    if version is None:
        return redirect_to(request, "domain", domain.pk)
    return redirect_to(request, "job", first_job_of(version).pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def rebase(request: TenantRequest, pk: int) -> HttpResponse:
    """Rebase the tenant's models on the domain onto its newest version."""
    tenant = request.access.tenant
    domain = domain_visible_to(tenant, pk)
    done = hplms_rebase(hplms=hplms_on(domain, tenant), actor=request.user)
    for reason, count in Counter(refused.error.message for refused in done.refused).items():
        messages.error(request, f"{counted(count, 'model')} not rebased: {reason}")
    names = ", ".join(version.name for version in done.versions)
    return redirect_to(request, "domain", domain.pk, message=f"Queued: {names}." if names else "")


def _estimate(
    request: TenantRequest, form: type[DomainUpdateForm], above: Version | None
) -> EstimateShown | None:
    """Return the estimate for the values so far, or None if they are not enough.

    `above` is the version to continue from; a new domain starts from the chosen parent.
    """
    filled = form(request.access.tenant, (request.POST or request.GET).dict())
    filled.full_clean()
    parent = above or filled.cleaned_data.get("parent")
    if parent is None or not filled.cleaned_data.get("corpus"):
        return None
    return estimate_shown(domain_estimate(parent, settings=filled.settings(), viewer=request.access.tenant))


def _create(request: TenantRequest, form: DomainForm) -> Version:
    cleaned = form.cleaned_data
    return domain_create(
        tenant=request.access.tenant,
        parent=cleaned["parent"],
        name=cleaned["name"],
        description=cleaned["description"],
        corpus=cleaned["corpus"],
        settings=form.settings(),
        **form.plot_settings(),
        actor=request.user,
    )


def _update(request: TenantRequest, domain: Domain, form: DomainUpdateForm) -> Version:
    cleaned = form.cleaned_data
    return domain_update(
        domain=domain,
        corpus=cleaned["corpus"],
        settings=form.settings(),
        **form.plot_settings(),
        actor=request.user,
    )
