"""Admin of usage and of the request log, read-only."""

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import ReadOnlyAdmin, format_timestamp
from tenants.usage.models import (
    LoggedRequest,
    UsageDay,
)


@admin.register(UsageDay)
class UsageDayAdmin(ReadOnlyAdmin):
    """Requests by tenant, day, model and key."""

    list_display = (
        "day",
        "tenant",
        "model_name",
        "key_prefix",
        "requests",
        "inputs",
        "tokens",
        "generated_tokens",
        "failed",
        "refused",
    )
    list_filter = (("tenant", AutocompleteSelectFilter), "day")
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "model_name")
    show_full_result_count = False
    ordering = ("-day",)  # one field, which has an index: there may be a hundred thousand rows a day


@admin.register(LoggedRequest)
class LoggedRequestAdmin(ReadOnlyAdmin):
    """The request log of all tenants, without texts."""

    list_display = (
        "timestamp",
        "tenant",
        "model_name",
        "version",
        "status",
        "error_code",
        "latency_ms",
        "request_id",
    )
    list_filter = (("tenant", AutocompleteSelectFilter), "api", "status")
    list_select_related = ("tenant",)
    search_fields = ("tenant__slug", "^request_id")
    exclude = ("texts",)
    show_full_result_count = False
    ordering = ("-id",)

    @admin.display(description="At (UTC)")
    def timestamp(self, request: LoggedRequest) -> str:
        """Return the time to the second."""
        return format_timestamp(request.at)
