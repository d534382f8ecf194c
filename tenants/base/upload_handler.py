"""Files of forms on their way to a temporary file."""

from pathlib import Path

from django.conf import settings
from django.core.files.uploadhandler import TemporaryFileUploadHandler

from tenants.base.disk import disk_full_errors, free_space_check


class DiskUploadHandler(TemporaryFileUploadHandler):
    """Writes a file of a form to the disk, and raises ``out_of_disk`` before the disk is full."""

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        """Write a chunk."""
        free_space_check(Path(settings.FILE_UPLOAD_TEMP_DIR), len(raw_data))
        with disk_full_errors():
            return super().receive_data_chunk(raw_data, start)
