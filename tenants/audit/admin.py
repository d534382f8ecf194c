"""Admin of the audit log, read-only."""

import re
from typing import Final

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.audit.details import detail_lines
from tenants.audit.models import AuditEvent
from tenants.base.admin.base import ReadOnlyAdmin, format_timestamp, text_lines

ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}")
"""A UUID or a digest."""


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """Audit events."""

    list_display = ("timestamp", "verb", "subject", "tenant", "by", "address", "summary")
    list_filter = ("verb", ("tenant", AutocompleteSelectFilter), "at")
    list_select_related = ("tenant", "actor", "api_key")
    search_fields = ("subject", "verb", "tenant__slug", "actor__username")
    fields = ("timestamp", "verb", "subject", "tenant", "by", "address", "request_id", "details")
    readonly_fields = fields
    show_full_result_count = False
    date_hierarchy = "at"

    @admin.display(description="At (UTC)", ordering="at")
    def timestamp(self, event: AuditEvent) -> str:
        """Return the time to the second."""
        return format_timestamp(event.at)

    @admin.display(description="By", ordering="actor__username")
    def by(self, event: AuditEvent) -> str:
        """Return the user, the key, or the system."""
        key = f"key {event.api_key.prefix}" if event.api_key else ""
        return str(event.actor or key or "System")

    @admin.display(description="Details")
    def summary(self, event: AuditEvent) -> str:
        """Return the details on one line, truncated and without ids and digests."""
        lines = [f"{name} {text}" for name, text in detail_lines(event.detail) if not ID.fullmatch(text)]
        return Truncator(", ".join(lines)).chars(90)

    @admin.display(description="Details")
    def details(self, event: AuditEvent) -> SafeString:
        """Return all details, a line each."""
        return text_lines(f"{name} {text}" for name, text in detail_lines(event.detail))
