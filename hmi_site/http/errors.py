"""Turns every error into a response: JSON for the APIs (`rendered`), a page elsewhere."""

import logging
import sys
from typing import Any

from django.core.exceptions import DisallowedHost, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.middleware.csrf import get_token
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string
from django.utils.http import url_has_allowed_host_and_scheme
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback
from structlog.contextvars import bind_contextvars

from frontend.last_tenant import enter_last_tenant
from hmi_site.http.request_body import timeout_error
from inference.api.errors import rendered, speaks_json
from tenants.base.errors import INTERNAL_MESSAGE, ErrorCode, HmiError

log = logging.getLogger(__name__)

DATABASE_RETRY_AFTER_S = 5
EXPECTED_IN_MIDDLEWARE = (HmiError, OperationalError, InterfaceError, UnreadablePostError)
MAX_HOST_LENGTH = 64
SERVER_ERROR = 500
NOT_RETRYABLE = {409, 429}
"""Statuses with ``x-should-retry: false`` unless they have Retry-After: OpenAI's clients would retry."""
TITLES = {
    400: "Invalid request",
    401: "Sign-in required",
    403: "Access denied",
    404: "Not found",
    406: "Format not available",
    408: "Request timed out",
    409: "Not possible now",
    410: "No longer available",
    413: "Too large",
    415: "Format not supported",
    422: "Invalid request",
    429: "Too many requests",
    500: "Server error",
    503: "Service unavailable",
}
PLAIN_PAGE = "<!doctype html><title>{title}</title><h1>{title}</h1><p>{message}</p>"


def api_exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: renders expected errors; None makes a 500 of any other."""
    known = as_hmi_error(error)
    if known is None:
        return None
    view = context["view"]
    if isinstance(error, exceptions.UnsupportedMediaType):
        kinds = dict.fromkeys(parser.media_type for parser in view.parser_classes)
        known.message += f" Accepted: {', '.join(kinds)}."
    if isinstance(error, exceptions.NotAcceptable):
        kinds = dict.fromkeys(renderer.media_type for renderer in view.renderer_classes)
        known.message += f" Available: {', '.join(kinds)}."
    set_rollback()
    bind_contextvars(code=str(known.code))
    if (trace := getattr(view, "request_trace", None)) is not None:
        trace.error = known
    status, body = rendered(known, context["request"].path)
    return Response(body, status=status, headers=error_headers(known, context))


def as_hmi_error(error: Exception) -> HmiError | None:
    """The HmiError for an exception of Django or DRF; None for an unexpected one."""
    match error:
        case HmiError():
            return error
        case exceptions.ValidationError():
            return validation_error(error.detail)
        case exceptions.ParseError():
            return HmiError(ErrorCode.INVALID_JSON, str(error.detail))
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return HmiError(ErrorCode.UNAUTHENTICATED, str(error.detail))
        case exceptions.PermissionDenied() | PermissionDenied():
            return HmiError(ErrorCode.FORBIDDEN, str(error) or "You do not have permission to do this.")
        case exceptions.NotFound() | Http404():
            return HmiError(ErrorCode.NOT_FOUND, "This page does not exist.")
        case exceptions.MethodNotAllowed():
            return HmiError(ErrorCode.METHOD_NOT_ALLOWED, str(error.detail))
        case exceptions.UnsupportedMediaType():
            return HmiError(
                ErrorCode.UNSUPPORTED_TYPE, "This media type is not supported.", param="Content-Type"
            )
        case exceptions.NotAcceptable():
            return HmiError(ErrorCode.NOT_ACCEPTABLE, str(error.detail), param="Accept")
        case exceptions.Throttled():
            wait: float | None = getattr(error, "wait", None)
            return HmiError(
                ErrorCode.QUOTA_EXCEEDED,
                str(error.detail),
                retry_after=None if wait is None else max(1, round(wait)),
            )
        case RequestDataTooBig():
            return HmiError(ErrorCode.BODY_TOO_LARGE, "The body is too large.")
        case UnreadablePostError():
            return timeout_error()
        case OperationalError() | InterfaceError():
            log.error("The database cannot be used: %s", error)
            return HmiError(
                ErrorCode.DATABASE_UNAVAILABLE,
                "The database cannot be reached; try again in a moment.",
                retry_after=DATABASE_RETRY_AFTER_S,
            )
        case SuspiciousOperation():
            log.warning("Django refused a request: %s", error)
            return HmiError(ErrorCode.INVALID_FIELD, "The request was rejected.")
    return None


def validation_error(detail: Any) -> HmiError:
    """The first error of a serializer, with the path of its field: `inputs.3`, `settings.alpha`."""
    path: list[str] = []
    while isinstance(detail, dict | list) and detail:
        if isinstance(detail, dict):
            key, detail = next(iter(detail.items()))
            if key != "non_field_errors":
                path.append(str(key))
        else:
            place, detail = next((place, item) for place, item in enumerate(detail) if item)
            if isinstance(detail, dict):
                path.append(str(place))
    code = ErrorCode.MISSING_FIELD if getattr(detail, "code", "") == "required" else ErrorCode.INVALID_FIELD
    return HmiError(code, str(detail or "The request is not valid."), param=".".join(path) or None)


def error_response(
    request: HttpRequest,
    error: HmiError,
    *,
    title: str = "",
    link: tuple[str, str] | None = None,
) -> HttpResponse:
    """The error as JSON under the paths of the APIs, as a page elsewhere.

    title: of the page (default: by the status). link: an address that helps, and its label.
    """
    bind_contextvars(code=str(error.code))
    headers = error_headers(error)
    if speaks_json(request.path):
        status, body = rendered(error, request.path)
        return JsonResponse(body, status=status, headers=headers)
    page = _page(request, error, title or TITLES.get(error.status, "Error"), link)
    return HttpResponse(page, status=error.status, headers=headers)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: Django itself refused the request (a bad host, a broken form)."""
    if isinstance(exception, DisallowedHost):
        return error_response(request, unknown_host(request))
    refused = as_hmi_error(exception) or HmiError(ErrorCode.INVALID_FIELD, "The request could not be read.")
    return error_response(request, refused)


def unknown_host(request: HttpRequest) -> HmiError:
    """``unknown_host``: the Host header is not in HMI_ALLOWED_HOSTS."""
    host = ascii(request._get_raw_host()[:MAX_HOST_LENGTH])  # type: ignore[attr-defined]
    message = f"The host {host} is not allowed. An administrator can add it to HMI_ALLOWED_HOSTS."
    return HmiError(ErrorCode.UNKNOWN_HOST, message, param="Host")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403."""
    return error_response(
        request,
        HmiError(ErrorCode.FORBIDDEN, str(exception) or "You do not have permission to do this."),
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """404: also for objects of another tenant."""
    message = f"The path {request.path} does not exist."
    if speaks_json(request.path):
        has_slash = request.path.endswith("/")
        message += " Paths here end without a slash." if has_slash else " See /api/docs/ for all paths."
    return error_response(request, HmiError(ErrorCode.NOT_FOUND, message))


def internal(request: HttpRequest) -> HttpResponse:
    """500, or the status of an expected error of middleware. The log has the details."""
    error = sys.exception()
    if isinstance(error, EXPECTED_IN_MIDDLEWARE) and (known := as_hmi_error(error)):
        return error_response(request, known)
    return error_response(request, internal_error())


def internal_error() -> HmiError:
    """``internal``: an unexpected error, which is in the log."""
    return HmiError(ErrorCode.INTERNAL, INTERNAL_MESSAGE)


def too_many_requests(request: HttpRequest) -> HttpResponse:
    """429: django-allauth's rate limit on forms of accounts."""
    message = "Too many requests from this address. Wait a minute and try again."
    return error_response(request, HmiError(ErrorCode.LOCKED_OUT, message, retry_after=60))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: the CSRF token of a form is missing or old."""
    message = "The form was open for too long, or you signed in meanwhile. Reload the page and try again."
    log.warning("CSRF check failed at %s: %s", request.path, reason)
    page = request.headers.get("Referer", "")
    link = (page, "Reload") if url_has_allowed_host_and_scheme(page, {request.get_host()}) else None
    return error_response(request, HmiError(ErrorCode.FORBIDDEN, message), title="Page expired", link=link)


def error_headers(error: HmiError, context: dict[str, Any] | None = None) -> dict[str, str]:
    """The headers of an error response. ``context`` is DRF's, for the methods of ``Allow``."""
    headers = {"Cache-Control": "no-store"}  # browsers would cache a 410 forever
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    elif error.status in NOT_RETRYABLE:
        headers["x-should-retry"] = "false"
    if error.code is ErrorCode.UNSUPPORTED_TYPE and error.param == "Content-Encoding":
        headers["Accept-Encoding"] = ", ".join((error.details or {}).get("accepted", ()))
    if error.code is ErrorCode.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.code is ErrorCode.METHOD_NOT_ALLOWED and context and (view := context.get("view")):
        headers["Allow"] = ", ".join(view.allowed_methods)
    return headers


def _page(request: HttpRequest, error: HmiError, title: str, link: tuple[str, str] | None) -> str:
    """Render within the navigation, where the user has one. A page of an error of the server does not ask
    the database, which may be down."""
    context = {
        "request": request,
        "status": error.status,
        "code": str(error.code),
        "title": title,
        "message": error.message,
        "link": link,
        "is_server_error": error.status >= SERVER_ERROR,
    }
    try:
        if _has_navigation(request, error.status):
            shell = {"layout": "frontend/page.html", "user": request.user, "csrf_token": get_token(request)}
            return render_to_string("error.html", context | shell)
        return render_to_string("error.html", context)
    except TemplateDoesNotExist:
        return PLAIN_PAGE.format_map({**context, "message": context["code"]})


def _has_navigation(request: HttpRequest, status: int) -> bool:
    if status >= SERVER_ERROR:
        return hasattr(request, "access")
    try:
        return hasattr(request, "user") and enter_last_tenant(request) is not None
    except (DatabaseError, HmiError):
        return False
