"""What clients of the API asked for: fine-tunings of files, and batches."""

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import ReadOnly, pretty_json
from versiontree.tree.models import FineTuning


@admin.register(FineTuning)
class FineTuningAdmin(ReadOnly):
    """Those of the OpenAI conventions, or why they came to nothing."""

    list_display = ("name", "model", "tenant", "state", "attempts", "created_at", "finished_at")
    list_filter = ("state", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("name", "model", "tenant__slug")
    exclude = ("asked", "options", "settings", "error")
    readonly_fields = ("sent", "why")
    show_full_result_count = False

    @admin.display(description="As it was sent")
    def sent(self, tuning: Any) -> SafeString:
        """The request's body."""
        return pretty_json(tuning.asked)

    @admin.display(description="Why it failed")
    def why(self, tuning: Any) -> SafeString:
        """The error as the tenant got it."""
        return pretty_json(tuning.error)
