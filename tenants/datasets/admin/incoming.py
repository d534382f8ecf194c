"""Files on their way, and what is being made of them."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import NotByHand, ReadOnly, pretty_json, sized
from tenants.datasets.models import Upload, UploadCheck
from tenants.datasets.services.uploads import upload_delete


@admin.register(Upload)
class UploadAdmin(NotByHand):
    """Uploads that nothing was made of yet, to look at and throw away."""

    size = sized("size_bytes")
    list_display = ("filename", "tenant", "size", "is_whole", "created_by", "created_at", "expires_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant", "created_by")
    search_fields = ("filename", "tenant__slug", "sha256")

    @admin.display(description="Complete", boolean=True)
    def is_whole(self, upload: Upload) -> bool:
        """Whether all of it is here."""
        return upload.is_complete

    def delete_model(self, request: HttpRequest, obj: Upload) -> None:
        upload_delete(upload=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Upload]) -> None:
        for upload in queryset:
            upload_delete(upload=upload)


@admin.register(UploadCheck)
class UploadCheckAdmin(ReadOnly):
    """What was found in uploads, or why they were refused."""

    size = sized("size_bytes")
    list_display = ("name", "kind", "tenant", "state", "size", "attempts", "created_at", "finished_at")
    list_filter = ("state", "kind", ("tenant", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("name", "tenant__slug")
    exclude = ("found", "faults", "refusal", "options", "files")
    readonly_fields = ("why",)

    @admin.display(description="Why it was refused")
    def why(self, check: Any) -> SafeString:
        """The error as the tenant got it."""
        return pretty_json(check.refusal)
