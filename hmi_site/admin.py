"""The administration of accounts: wrong passwords that lock people out, second factors, e-mail addresses. And
what the site adds to that of tenants."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt
from django.contrib import admin

from hmi_site.dashboard.tenant import TenantPage
from hmi_site.dashboard.urls import addresses
from tenants.accounts.models import Tenant
from tenants.base.admin.base import ModelAdmin, NoAddOrChangeAdmin

admin.site.unregister([Authenticator, EmailAddress, Tenant])
admin.site.register(Tenant, TenantPage)
admin.site.index_template = "hmi_site/dashboard.html"
admin.site.extra_urls = addresses  # type: ignore[attr-defined] # unfold's site has them


@admin.register(AccessAttempt)
class AccessAttemptAdmin(NoAddOrChangeAdmin):
    """Wrong passwords of late. Deleting a row ends its lock-out."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time")
    search_fields = ("username", "ip_address")
    fields = ("username", "ip_address", "user_agent", "failures_since_start", "attempt_time", "path_info")


@admin.register(Authenticator)
class AuthenticatorAdmin(NoAddOrChangeAdmin):
    """Second factors, without their secrets. Delete them for somebody who has lost the telephone."""

    list_display = ("user", "type", "created_at", "last_used_at")
    list_select_related = ("user",)
    list_filter = ("type",)
    search_fields = ("user__username",)
    fields = ("user", "type", "created_at", "last_used_at")


@admin.register(EmailAddress)
class EmailAddressAdmin(ModelAdmin):
    """Who is reached where, and whether that was confirmed."""

    list_display = ("email", "user", "primary", "verified")
    list_select_related = ("user",)
    list_filter = ("primary", "verified")
    search_fields = ("email", "user__username")
    autocomplete_fields = ("user",)
