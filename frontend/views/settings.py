"""The settings of a tenant: its switches, quota and data exports."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import file_response
from frontend.forms.tenant import SettingsForm
from frontend.shortcuts import redirect_to, render_page, run_action
from tenants.accounts.models import Role
from tenants.accounts.permissions import require_role
from tenants.accounts.services.tenant_deletion import tenant_delete
from tenants.accounts.services.tenants import (
    tenant_set_answer_checks,
    tenant_set_auto_rebase,
    tenant_set_request_texts,
)
from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.selectors import takeout_ready, takeouts_of
from versiontree.transfer.services.takeouts import takeout_path, takeout_record_download, takeout_request


@require_http_methods(["GET", "POST"])
@tenant_member_required()
def page(request: TenantRequest) -> HttpResponse:
    """Show the settings. POST by an owner changes the switches."""
    tenant = request.access.tenant
    if request.method == "POST":
        require_role(request.user, tenant, Role.OWNER)
        form = SettingsForm(request.POST)
        if form.is_valid():
            cleaned, actor = form.cleaned_data, request.user
            tenant_set_answer_checks(tenant=tenant, checks=cleaned["checks_answers"], actor=actor)
            tenant_set_request_texts(tenant=tenant, keeps=cleaned["keeps_request_texts"], actor=actor)
            tenant_set_auto_rebase(tenant=tenant, rebases=cleaned["auto_rebase"], actor=actor)
            return redirect_to(request, "settings", message="Settings saved.")
    form = SettingsForm(initial={name: getattr(tenant, name) for name in SettingsForm.base_fields})
    takeouts = takeouts_of(tenant) if request.access.is_owner else ()
    context: dict[str, Any] = {
        "takeouts": takeouts,
        "log_days": settings.HMI_REQUEST_LOG_DAYS,
    }
    return render_page(request, "settings.html", form=form, **context)


@require_POST
@tenant_member_required(Role.OWNER)
def delete(request: TenantRequest) -> HttpResponse:
    """Delete the tenant and all its data, once its name was typed. Its requests are refused at once."""
    tenant, typed = request.access.tenant, request.POST.get("name", "")

    message = f"{tenant.name} is being deleted."
    deleted = run_action(
        request, lambda: tenant_delete(tenant=tenant, typed=typed, actor=request.user), message=message
    )
    return redirect("frontend:start") if deleted else redirect_to(request, "settings")


@require_http_methods(["GET", "POST"])
@never_cache
@tenant_member_required(Role.OWNER)
def takeouts(request: TenantRequest) -> HttpResponse:
    """The data exports, as a part of the settings page. POST requests a new one."""
    tenant = request.access.tenant
    if request.method == "POST":
        run_action(request, lambda: takeout_request(tenant=tenant, actor=request.user))
        return redirect_to(request, "settings")
    takeouts = takeouts_of(tenant)
    return render_page(request, "settings/takeouts.html", takeouts=takeouts)


@require_GET
@tenant_member_required(Role.OWNER)
def takeout_file(request: TenantRequest, pk: UUID) -> HttpResponseBase:
    """Download a data export, and record that in the audit log."""
    takeout = takeout_ready(request.access.tenant, pk)
    try:
        response = file_response(
            takeout_path(takeout), f"{request.access.tenant.slug}-{takeout.created_at:%Y-%m-%d}.zip"
        )
    except FileNotFoundError as error:
        raise HmiError(ErrorCode.NOT_FOUND, "This file no longer exists. Export the data again.") from error
    takeout_record_download(takeout=takeout, actor=request.user)
    return response
