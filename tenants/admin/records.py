"""Usage and audit events: written by the system, read by people."""

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.admin.base import ReadOnly
from tenants.models import AuditEvent, KeptAnswer, UsageDay, UsageMonth, UsageSum


@admin.register(UsageDay)
class UsageDayAdmin(ReadOnly):
    """Infer requests per tenant, hPLM and day."""

    list_display = ("day", "tenant", "hplm_name", "requests", "inputs", "tokens", "failed")
    list_filter = (("tenant", AutocompleteSelectFilter), "day")
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "hplm_name")
    show_full_result_count = False
    date_hierarchy = "day"


@admin.register(UsageSum)
class UsageSumAdmin(ReadOnly):
    """The same per tenant, key and day."""

    list_display = ("day", "tenant", "key_prefix", "requests", "inputs", "tokens", "failed")
    list_filter = (("tenant", AutocompleteSelectFilter), "day")
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "key_prefix")
    show_full_result_count = False
    date_hierarchy = "day"


@admin.register(UsageMonth)
class UsageMonthAdmin(ReadOnly):
    """The same per tenant, hPLM and month."""

    list_display = ("month", "tenant", "hplm_name", "requests", "inputs", "tokens", "failed")
    list_filter = (("tenant", AutocompleteSelectFilter), "month")
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "hplm_name")
    show_full_result_count = False
    date_hierarchy = "month"


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnly):
    """Who did what, when."""

    list_display = ("at", "verb", "subject", "tenant", "actor", "api_key")
    list_filter = ("verb", ("tenant", AutocompleteSelectFilter), "at")
    list_filter_submit = True
    list_select_related = ("tenant", "actor", "api_key")
    search_fields = ("subject", "verb", "tenant__slug", "actor__username")
    show_full_result_count = False
    date_hierarchy = "at"


@admin.register(KeptAnswer)
class KeptAnswerAdmin(ReadOnly):
    """That requests with an idempotency key were answered; what was answered is sealed."""

    list_display = ("created_at", "tenant", "status")
    list_filter = ("status", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant",)
    fields = ("created_at", "tenant", "status")
    readonly_fields = fields
    show_full_result_count = False
