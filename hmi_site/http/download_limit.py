"""How many files one tenant, or one address that nobody is signed in at, may fetch at a time."""

import weakref
from collections.abc import Callable
from typing import Any, Final

from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from hmi_site.http.errors import answer
from tenants.base.client_address import counted_address
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import NOTHING, scope_now
from tenants.base.upload_concurrency import DOWNLOADS_AT_ONCE, RETRY_AFTER_S, Places

SMALL_FILE_BYTES: Final = 256 * 1024
"""A file up to this size is sent in one piece, and is no download."""

_places = Places(DOWNLOADS_AT_ONCE)


class DownloadLimit:
    """Refuses a download (``queue_full``) while its reader has as many as there may be. It ends when the web
    server has taken the last piece of it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not isinstance(response, StreamingHttpResponse) or response.is_async or is_small_file(response):
            return response
        reader = scope_now()
        if reader == NOTHING:
            reader = counted_address(request)
        closers: list[Any] = response._resource_closers  # type: ignore[attr-defined]
        if _places.take(reader):
            over = weakref.finalize(response, _places.give_back, reader)  # also where nobody closes it
            over.atexit = False
            closers.append(over)
            return response
        for close in closers:
            close()
        message = f"{DOWNLOADS_AT_ONCE} files are being fetched already; ask for this one when one is here."
        details = {"limit": DOWNLOADS_AT_ONCE}
        return answer(
            request, HmiError(ErrorCode.QUEUE_FULL, message, details=details, retry_after=RETRY_AFTER_S)
        )


def is_small_file(response: object) -> bool:
    """Whether this is a file that one piece holds."""
    if not isinstance(response, FileResponse):
        return False
    return int(response.headers.get("Content-Length", SMALL_FILE_BYTES + 1)) <= SMALL_FILE_BYTES
