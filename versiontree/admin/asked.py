"""What clients of the API asked for: fine-tunings of files, and batches."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.admin.base import NotByHand, ReadOnly, acting, pretty_json
from tenants.admin.confirm import typed_name
from versiontree.admin.base import Serviced
from versiontree.models import Batch, FineTuning
from versiontree.services.batch_deletion import batch_delete
from versiontree.services.batches import batch_cancel


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


@admin.register(Batch)
class BatchAdmin(NotByHand, Serviced):
    """Files of inputs, and how far they are answered; to watch, cancel and delete."""

    list_display = (
        "filename",
        "model",
        "tenant",
        "state",
        "lines",
        "total_lines",
        "failed",
        "created_at",
        "finished_at",
    )
    list_filter = ("state", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("filename", "model", "tenant__slug")
    show_full_result_count = False
    actions = ("cancel", "remove")
    on_page = actions
    for_good = ("remove",)

    def offered(self, row: Batch) -> tuple[str, ...]:
        return ("cancel",) if row.is_active else ("remove",)

    @admin.action(description="Cancel", permissions=["operate"])
    @typed_name("cancel", told="What is answered by now can be fetched.", of_one=False)
    def cancel(self, request: HttpRequest, rows: QuerySet[Batch]) -> None:
        """End them as their tenants would."""
        self.each(request, rows, lambda batch: batch_cancel(batch=batch, actor=acting(request)), "cancelled")

    @admin.action(description="Delete, with the answers", permissions=["operate"])
    @typed_name("delete", told="What they were answered is gone for good, and so are their inputs.")
    def remove(self, request: HttpRequest, rows: QuerySet[Batch]) -> None:
        """Delete those that have ended as their tenants would."""
        self.each(request, rows, lambda batch: batch_delete(batch=batch, actor=acting(request)), "deleted")
