"""Admin pages of takeouts."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import FileResponse, Http404, HttpRequest
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tenants.base.admin.base import ReadOnlyAdmin, format_timestamp, staff_user
from tenants.base.file_sizes import file_size
from versiontree.transfer.models import Takeout
from versiontree.transfer.services.takeouts import takeout_path, takeout_record_download


@admin.register(Takeout)
class TakeoutAdmin(ReadOnlyAdmin):
    """Takeouts, requested on the page of a tenant or by its owners. They expire after a week."""

    list_display = ("tenant", "takeout_state", "size", "created_by", "created_at", "expires", "file")
    list_select_related = ("tenant", "created_by")
    search_fields = ("tenant__slug",)
    fields = (
        "tenant",
        "takeout_state",
        "size",
        "error_message",
        "created_by",
        "created_at",
        "expires",
        "file",
    )
    readonly_fields = fields

    @admin.display(description="State")
    def takeout_state(self, takeout: Takeout) -> str:
        """Waiting, running, ready or failed."""
        return takeout.takeout_state.label

    @admin.display(description="Size")
    def size(self, takeout: Takeout) -> str:
        """The size of the file, as KB or MB."""
        return file_size(takeout.size_bytes)

    @admin.display(description="Expires (UTC)")
    def expires(self, takeout: Takeout) -> str:
        """When its row and file are deleted."""
        return format_timestamp(takeout.expires_at) if takeout.expires_at else "–"

    @admin.display(description="File")
    def file(self, takeout: Takeout) -> SafeString | str:
        """A link to the file."""
        if not takeout.is_ready:
            return "–"
        return format_html(
            '<a href="{}">Download</a>', reverse("admin:transfer_takeout_file", args=[takeout.pk])
        )

    def get_urls(self) -> list[URLPattern]:
        own = path(
            "<path:object_id>/file/", self.admin_site.admin_view(self.download), name="transfer_takeout_file"
        )
        return [own, *super().get_urls()]

    def download(self, request: HttpRequest, object_id: str) -> FileResponse:
        """The file. The download is recorded in the audit log."""
        takeout: Any = self.get_object(request, object_id)
        if not self.has_view_permission(request, takeout):
            raise PermissionDenied
        if takeout is None or not takeout.is_ready:
            raise Http404
        try:
            file = takeout_path(takeout).open("rb")
        except FileNotFoundError as error:
            raise Http404 from error
        takeout_record_download(takeout=takeout, actor=staff_user(request))
        name = f"{takeout.tenant.slug}-{takeout.created_at:%Y-%m-%d}.zip"
        return FileResponse(file, as_attachment=True, filename=name)
