"""What clients of the API asked for: fine-tunings of files, and batches."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from inference.batches.models import Batch
from inference.batches.services.batches import batch_cancel
from inference.batches.services.deletion import batch_delete
from tenants.base.admin.base import NotByHand, acting
from tenants.base.admin.confirm import typed_name
from versiontree.tree.admin.base import Serviced


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
