"""Files that clients of the API keep here."""

from django.contrib import admin
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import ReadOnly, sized
from tenants.datasets.models import File, PartedFile


@admin.register(File)
class FileAdmin(ReadOnly):
    """What was sent to be learnt from or answered, and what batches were answered."""

    size = sized("size_bytes")
    list_display = ("filename", "purpose", "tenant", "size", "created_by", "created_at", "expires_at")
    list_filter = ("purpose", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant", "created_by")
    search_fields = ("filename", "tenant__slug", "sha256")
    show_full_result_count = False


@admin.register(PartedFile)
class PartedFileAdmin(ReadOnly):
    """Files that come in parts."""

    size = sized("size_bytes")
    list_display = ("filename", "purpose", "tenant", "size", "state", "created_at", "expires_at")
    list_filter = ("state", "purpose", ("tenant", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("filename", "tenant__slug")
    show_full_result_count = False
