"""Usage and audit events: written by the system, read by people."""

import json
from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.admin.base import ReadOnly, pretty_json, to_the_second
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
    ordering = ("-day",)  # not by names, too, as elsewhere: there may be a hundred thousand rows


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
        return to_the_second(event.at)

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


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
