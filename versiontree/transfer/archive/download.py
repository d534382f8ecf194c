"""An archive on its way to whoever asked for it over HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import StreamingHttpResponse


@dataclass(frozen=True, slots=True)
class Download:
    """A zip file under way: what it should be called, and its bytes."""

    name: str
    chunks: Iterator[bytes]


def zip_response(download: Download) -> StreamingHttpResponse:
    """The answer that a browser saves as a file."""
    answer = StreamingHttpResponse(download.chunks, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="{download.name}"'
    answer["X-Accel-Buffering"] = "no"
    return answer
