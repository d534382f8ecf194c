"""Downloads: views whose successful response is a file."""

from typing import Any, Final

from rest_framework.generics import GenericAPIView
from rest_framework.request import Request

OCTET_STREAM: Final = "application/octet-stream"
"""The content type of any file. Generated clients know it and few others."""


class DownloadView(GenericAPIView[Any]):
    """A view that responds with a file. It accepts any ``Accept`` header; its errors are JSON."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        return super().perform_content_negotiation(request, force=True)


def download_type(request: Request, media_type: str) -> str:
    """The content type of a download: ``media_type``, or OCTET_STREAM if ``Accept`` is exactly that."""
    return OCTET_STREAM if request.headers.get("Accept") == OCTET_STREAM else media_type
