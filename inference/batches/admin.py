"""Batches in the admin."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from inference.batches.models import Batch
from inference.batches.services.batches import batch_cancel, batch_delete
from tenants.base.admin.base import NoAddOrChangeAdmin, staff_user
from tenants.base.admin.confirm import require_typed_name
from versiontree.tree.admin.base import ServiceAdmin


@admin.register(Batch)
class BatchAdmin(NoAddOrChangeAdmin, ServiceAdmin):
    """Batches and their progress; staff cancel and delete them."""

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
    page_actions = actions
    destructive_actions = ("remove",)

    def available_actions(self, row: Batch) -> tuple[str, ...]:
        return ("cancel",) if row.is_active else ("remove",)

    @admin.action(description="Cancel", permissions=["operate"])
    @require_typed_name("cancel", warning="Results so far are kept.", confirm_single=False)
    def cancel(self, request: HttpRequest, rows: QuerySet[Batch]) -> None:
        """End them as their tenants would."""
        self.each(
            request, rows, lambda batch: batch_cancel(batch=batch, actor=staff_user(request)), "canceled"
        )

    @admin.action(description="Delete with results", permissions=["operate"])
    @require_typed_name(
        "delete", warning="Inputs and results of {these} are deleted too. This cannot be undone."
    )
    def remove(self, request: HttpRequest, rows: QuerySet[Batch]) -> None:
        """Delete those that have ended as their tenants would."""
        self.each(
            request, rows, lambda batch: batch_delete(batch=batch, actor=staff_user(request)), "deleted"
        )
