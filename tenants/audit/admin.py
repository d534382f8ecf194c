"""Usage and audit events: written by the system, read by people."""

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
    """Who did what, when."""

    list_display = ("moment", "verb", "subject", "tenant", "by", "address", "told")
    list_filter = ("verb", ("tenant", AutocompleteSelectFilter), "at")
    list_filter_submit = True
    list_select_related = ("tenant", "actor", "api_key")
    search_fields = ("subject", "verb", "tenant__slug", "actor__username")
    exclude = ("detail",)
    readonly_fields = ("moment", "shown_detail")
    show_full_result_count = False
    date_hierarchy = "at"

    @admin.display(description="At (UTC)", ordering="at")
    def moment(self, event: AuditEvent) -> str:
        """To the second."""
        return format_timestamp(event.at)

    @admin.display(description="By", ordering="actor__username")
    def by(self, event: AuditEvent) -> str:
        """Who did it: a person, a key, or nobody."""
        key = f"key {event.api_key.prefix}" if event.api_key else ""
        return str(event.actor or key or "the\N{NO-BREAK SPACE}system")

    @admin.display(description="Detail")
    def told(self, event: AuditEvent) -> str:
        """What there is to say of it, on a line; its page has all."""
        told = ", ".join(f"{name}: {_plain(value)}" for name, value in sorted(event.detail.items()))
        return Truncator(told).chars(60)

    @admin.display(description="Detail")
    def shown_detail(self, event: AuditEvent) -> SafeString:
        """All of it, readable."""
        return pretty_json(event.detail)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
