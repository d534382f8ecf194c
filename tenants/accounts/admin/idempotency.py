"""Usage and audit events: written by the system, read by people."""

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.accounts.models import IdempotentResponse
from tenants.base.admin.base import ReadOnly


@admin.register(IdempotentResponse)
class KeptAnswerAdmin(ReadOnly):
    """That requests with an idempotency key were answered; what was answered is sealed."""

    list_display = ("created_at", "tenant", "status")
    list_filter = ("status", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant",)
    fields = ("created_at", "tenant", "status")
    readonly_fields = fields
    show_full_result_count = False
