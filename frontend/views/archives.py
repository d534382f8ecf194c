"""Exports and imports of versions."""

from django.http import HttpResponse, HttpResponseBase
from django.http.response import HttpResponseRedirect
from django.views.decorators.http import require_GET, require_http_methods

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.archives import ImportAdapterForm, ImportForm
from frontend.presenters.version_page import version_url
from frontend.shortcuts import render_page, submit_form
from tenants.accounts.models import Role
from tenants.base.upload_concurrency import accepts_uploads
from versiontree.transfer.archive.sources import zip_response
from versiontree.transfer.services.adapter_import import adapter_import
from versiontree.transfer.services.version_export import adapter_download, version_download
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.models import Version
from versiontree.tree.selectors.versions import version_visible_to


@require_GET
@tenant_member_required(Role.DEVELOPER)
def export(request: TenantRequest, pk: int) -> HttpResponseBase:
    """Download a ready version as a zip file.

    `?branch=1` adds its parents. `?format=peft` and `?format=adapterhub` give an adapter instead.
    """
    version = version_visible_to(request.access.tenant, pk)
    if form := request.GET.get("format"):
        return zip_response(adapter_download(version=version, form=form, actor=request.user))
    branch = request.GET.get("branch") == "1"
    return zip_response(version_download(version=version, actor=request.user, branch=branch))


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def import_version(request: TenantRequest) -> HttpResponse:
    """Import an exported version, then redirect to its page."""
    form = ImportForm(request.POST or None, request.FILES or None)
    version = submit_form(form, lambda: _import(request, form))
    if version is None:
        return render_page(request, "models/import.html", form=form)
    return HttpResponseRedirect(version_url(request.access.tenant, version))


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def import_adapter(request: TenantRequest) -> HttpResponse:
    """Import an adapter of PEFT or AdapterHub as a model, then redirect to its page."""
    form = ImportAdapterForm(
        request.access.tenant, request.POST or None, request.FILES or None, initial=request.GET.dict()
    )
    version = submit_form(form, lambda: _import_adapter(request, form))
    if version is None:
        return render_page(request, "models/import_adapter.html", form=form)
    return HttpResponseRedirect(version_url(request.access.tenant, version))


def _import_adapter(request: TenantRequest, form: ImportAdapterForm) -> Version:
    options = dict(form.cleaned_data)
    name = options.pop("name")
    return adapter_import(model=name, tenant=request.access.tenant, actor=request.user, **options)


def _import(request: TenantRequest, form: ImportForm) -> Version:
    cleaned = form.cleaned_data
    return version_import(
        archive=cleaned["archive"],
        tenant=request.access.tenant,
        actor=request.user,
        name=cleaned["name"] or None,
    )
