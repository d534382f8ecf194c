"""Guards in front of every view, and the pages of errors that views raise."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from hmi_site.body_limits import body_limit
from hmi_site.errors import answer
from tenants.errors import ErrorCode, HmiError

GetResponse = Callable[[HttpRequest], HttpResponse]


class RequestGuard:
    """Refuses what no view can use, before anything reads it: bodies beyond the limit, NUL in addresses."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            _check_size(request)
            _check_address(request)
        except HmiError as error:
            return answer(request, error)
        return self.get_response(request)


class ErrorPages:
    """Renders the typed errors of views that DRF does not handle."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """None leaves 404, 403 and the unexpected to Django's own handlers (see errors.py)."""
        return answer(request, exception) if isinstance(exception, HmiError) else None


def _check_size(request: HttpRequest) -> None:
    try:
        size = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise HmiError(
            ErrorCode.INVALID_FIELD, "Content-Length is not a number.", param="Content-Length"
        ) from None
    limit = body_limit(request.content_type or "")
    if size > limit:
        message = f"The body has {size:,} bytes; at most {limit:,} are taken here."
        raise HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"size": size, "limit": limit})


def _check_address(request: HttpRequest) -> None:
    if "\0" in request.path_info:
        raise HmiError(ErrorCode.NOT_FOUND, "There is nothing at this address.")
    query = request.META.get("QUERY_STRING", "")
    if "%00" in query or "\0" in query:
        raise HmiError(ErrorCode.INVALID_FIELD, "The query string holds a NUL character.", param="query")
