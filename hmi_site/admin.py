"""Django admin of accounts (lock-outs, second factors, e-mail addresses), and the dashboard's additions."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path

from hmi_site.dashboard import demo, settings_in_use, views, workers
from hmi_site.dashboard.tenant import TenantUsageAdmin
from tenants.accounts.models import Tenant
from tenants.base.admin.base import ModelAdmin, NoAddOrChangeAdmin


def app_index(request: HttpRequest, app_label: str) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """Lead to the dashboard. The menu has all lists, so no page lists those of one application."""
    return redirect("admin:index")


def dashboard_urls() -> list[URLPattern]:
    """The URL patterns below /admin/, in its namespace."""
    return [
        path("live/", views.dashboard_live, name="dashboard-live"),
        path("settings/", settings_in_use.settings_page, name="settings"),
        path("demo/<slug:goal>/", demo.command_demo, name="demo-command"),
        path("serving/", workers.workers, name="serving-workers"),
        path("serving/drain/", workers.drain_all, name="serving-drain"),
        path("serving/<path:worker>/trace.json", workers.trace, name="serving-trace"),
        path("serving/<path:worker>/<str:command>/", workers.command_worker, name="serving-command"),
    ]


admin.site.unregister([Authenticator, EmailAddress, Tenant])
admin.site.register(Tenant, TenantUsageAdmin)
admin.site.app_index = app_index  # type: ignore[method-assign, assignment]
admin.site.index_template = "hmi_site/dashboard.html"
admin.site.extra_urls = dashboard_urls  # type: ignore[attr-defined] # of unfold's site


@admin.register(AccessAttempt)
class AccessAttemptAdmin(NoAddOrChangeAdmin):
    """Failed sign-ins. Deleting a row ends its lock-out."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time")
    search_fields = ("username", "ip_address")
    fields = ("username", "ip_address", "user_agent", "failures_since_start", "attempt_time", "path_info")


@admin.register(Authenticator)
class AuthenticatorAdmin(NoAddOrChangeAdmin):
    """Second factors, without their secrets. Delete those of a user who has lost the device."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_select_related = ("user",)
    list_filter = ("type",)
    search_fields = ("user__username",)
    fields = ("user", "type", "created_at", "last_used_at")


@admin.register(EmailAddress)
class EmailAddressAdmin(ModelAdmin):
    """E-mail addresses of users, and whether they are verified."""

    list_display = ("email", "user", "primary", "verified")
    list_select_related = ("user",)
    list_filter = ("primary", "verified")
    search_fields = ("email", "user__username")
    autocomplete_fields = ("user",)
