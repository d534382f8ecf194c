"""Taking versions elsewhere, and bringing them here."""

from django.http import HttpResponse, HttpResponseBase
from django.http.response import HttpResponseRedirect
from django.views.decorators.http import require_GET, require_http_methods

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.archives import ImportAdapterForm, ImportForm
from frontend.presenters.version_page import version_url
from frontend.shortcuts import render_page, try_write
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
    """A ready version as a zip file; `?branch=1` adds what it stands on; `?format=peft` gives an adapter."""
    version = version_visible_to(request.access.tenant, pk)
    if form := request.GET.get("format"):
        return zip_response(adapter_download(version=version, form=form, actor=request.user))
    branch = request.GET.get("branch") == "1"
    return zip_response(version_download(version=version, actor=request.user, branch=branch))


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def import_(request: TenantRequest) -> HttpResponse:
    """Make an exported version the tenant's; its page follows."""
    form = ImportForm(request.POST or None, request.FILES or None)
    version = try_write(form, lambda: _import(request, form)) if form.is_valid() else None
    if version is None:
        return render_page(request, "models/import.html", form=form)
    return HttpResponseRedirect(version_url(request.access.tenant, version))


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def import_adapter(request: TenantRequest) -> HttpResponse:
    """Make an adapter that was trained elsewhere a model; its page follows."""
    told = request.POST or None, request.FILES or None
    form = ImportAdapterForm(request.access.tenant, *told, initial=request.GET.dict())
    version = try_write(form, lambda: _import_adapter(request, form)) if form.is_valid() else None
    if version is None:
        return render_page(request, "models/import_adapter.html", form=form)
    return HttpResponseRedirect(version_url(request.access.tenant, version))


def _import_adapter(request: TenantRequest, form: ImportAdapterForm) -> Version:
    told = dict(form.cleaned_data)
    return adapter_import(model=told.pop("name"), tenant=request.access.tenant, actor=request.user, **told)


def _import(request: TenantRequest, form: ImportForm) -> Version:
    cleaned = form.cleaned_data
    return version_import(
        archive=cleaned["archive"],
        tenant=request.access.tenant,
        actor=request.user,
        name=cleaned["name"] or None,
    )
