"""Admin of the audit log, read-only."""

import json
from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.audit.models import AuditEvent
from tenants.base.admin.base import ReadOnlyAdmin, format_timestamp, pretty_json


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """Audit events."""

    list_display = ("timestamp", "verb", "subject", "tenant", "by", "address", "summary")
    list_filter = ("verb", ("tenant", AutocompleteSelectFilter), "at")
    list_select_related = ("tenant", "actor", "api_key")
    search_fields = ("subject", "verb", "tenant__slug", "actor__username")
    exclude = ("detail",)
    readonly_fields = ("timestamp", "detail_json")
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

    @admin.display(description="Detail")
    def summary(self, event: AuditEvent) -> str:
        """Return the details on one line, truncated."""
        summary = ", ".join(f"{name}: {_as_text(value)}" for name, value in sorted(event.detail.items()))
        return Truncator(summary).chars(60)

    @admin.display(description="Detail")
    def detail_json(self, event: AuditEvent) -> SafeString:
        """Return all details as indented JSON."""
        return pretty_json(event.detail)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
