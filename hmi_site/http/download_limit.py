"""Limits concurrent downloads per tenant or, for anonymous clients, per address."""

from collections.abc import Callable
from typing import Final

from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from hmi_site.http.errors import error_response
from tenants.base.client_address import rate_limit_address
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import EMPTY_SCOPE, current_scope
from tenants.base.upload_concurrency import MAX_CONCURRENT_DOWNLOADS, RETRY_AFTER_S, ConcurrencyLimit

SMALL_FILE_BYTES: Final = 256 * 1024
"""A file up to this size is sent in one chunk and does not count."""

_downloads = ConcurrencyLimit(MAX_CONCURRENT_DOWNLOADS)


class DownloadLimit:
    """Middleware: refuses a download (``queue_full``) while its reader has too many of them.

    A download ends when the web server has taken its last chunk, or when nobody holds the response any more.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not isinstance(response, StreamingHttpResponse) or response.is_async or is_small_file(response):
            return response
        reader = current_scope()
        if reader == EMPTY_SCOPE:
            reader = rate_limit_address(request)
        if _downloads.acquire(reader):
            _downloads.release_with(reader, response)
            return response
        for close in response._resource_closers:  # type: ignore[attr-defined]
            close()
        message = (
            f"{MAX_CONCURRENT_DOWNLOADS} downloads are already running. Try again when one has finished."
        )
        details = {"limit": MAX_CONCURRENT_DOWNLOADS}
        return error_response(
            request, HmiError(ErrorCode.QUEUE_FULL, message, details=details, retry_after=RETRY_AFTER_S)
        )


def is_small_file(response: object) -> bool:
    """Whether this is a file that is sent in one chunk."""
    if not isinstance(response, FileResponse):
        return False
    return int(response.headers.get("Content-Length", SMALL_FILE_BYTES + 1)) <= SMALL_FILE_BYTES
