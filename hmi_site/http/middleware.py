"""Middleware: request checks, security headers, second factors, error pages and the tenant scope."""

import codecs
from collections.abc import Callable
from functools import partial
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from corsheaders.middleware import CorsMiddleware
from csp.constants import HEADER, SELF, UNSAFE_EVAL
from csp.utils import build_policy
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import redirect

from hmi_site.accounts import second_factor_required
from hmi_site.http.body_limits import BODY_ERROR, BODY_SENDER, FORM, check_size, keeps_partial
from hmi_site.http.errors import error_response
from hmi_site.http.request_body import MAX_LENGTH_DIGITS
from hmi_site.http.request_log import INFER_PATH
from inference.api.errors import speaks_json
from inference.api.pending_response import PendingResponse
from inference.open_inference.errors import is_oip_path
from tenants.base.characters import check_characters, check_fields
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import empty_scope, enter_platform
from tenants.base.upload_concurrency import release_database, upload_slot

GetResponse = Callable[[HttpRequest], HttpResponse]

ADMIN_PATH = "/admin/"
ADMIN_NAMESPACE = "admin"
IDENTITY = "identity"
PERMISSIONS_POLICY = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
INCOMPLETE_BODY = {ErrorCode.BODY_TRUNCATED, ErrorCode.BODY_TOO_SLOW}
FORMS = {FORM, "application/x-www-form-urlencoded"}
UTF_8 = {"utf-8", "ascii"}
"""Python's names of the charsets that are UTF-8."""
EXEMPT_VIEWS = ("account_", "mfa_", "health-")
"""Views that staff without a second factor may use: it is set up there. Health checks query no database."""
SECOND_FACTOR_REQUIRED = "Staff must use two-factor authentication. Set it up in your account first."


class RequestGuard:
    """Refuses bodies that are too large, incomplete or compressed, forms that are not UTF-8, and NUL
    characters in addresses, cookies and forms.

    Reads large forms of signed-in users before the CSRF middleware looks for their token.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            _check_body(request)
            _check_encoding(request)
            _check_charset(request)
            _check_address(request)
            check_characters(request.COOKIES)
        except HmiError as error:
            return error_response(request, error)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, *_: Any) -> HttpResponse | None:
        """Read and check a form: a large one without a database connection, in one of the sender's upload
        slots.

        Views that are exempt from CSRF (the API) do this themselves.
        """
        if getattr(view, "csrf_exempt", False):
            return None
        try:
            _read_form(request)
            check_fields(request.POST)
        except HmiError as error:
            return error_response(request, error)
        return None


class SecurityHeaders:
    """Sets ``Content-Security-Policy`` (from settings.py) and ``Permissions-Policy``.

    The administration is unfold's, whose Alpine.js needs ``unsafe-eval``; no other page has it.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._policy = build_policy()
        self._admin_policy = build_policy(update={"script-src": [SELF, UNSAFE_EVAL]})

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_admin = request.path.startswith(ADMIN_PATH)
        response.headers[HEADER] = self._admin_policy if is_admin else self._policy
        response.headers["Permissions-Policy"] = PERMISSIONS_POLICY
        return response


class StaffSecondFactor:
    """Redirects staff without a second factor to the page that sets one up, if HMI_STAFF_TOTP is set."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        match, user = request.resolver_match, request.user
        if not settings.HMI_STAFF_TOTP or (match and match.view_name.startswith(EXEMPT_VIEWS)):
            return None
        if not user.is_authenticated or not second_factor_required(user):
            return None
        if is_mfa_enabled(user, [Authenticator.Type.TOTP]):
            return None
        if speaks_json(request.path):
            return error_response(request, HmiError(ErrorCode.FORBIDDEN, SECOND_FACTOR_REQUIRED))
        messages.warning(request, SECOND_FACTOR_REQUIRED)
        return redirect("mfa_activate_totp")


class ErrorPages:
    """Renders an HmiError that a Django view raises."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Other exceptions go to Django's handlers, which are in errors.py."""
        return error_response(request, exception) if isinstance(exception, HmiError) else None


def _read_form(request: HttpRequest) -> None:
    sender = request.META.get(BODY_SENDER)
    if sender is not None and request.content_type == FORM:
        with upload_slot(sender):
            release_database()
            request.POST  # noqa: B018 - it is read here


def _check_body(request: HttpRequest) -> None:
    refusal: HmiError | None = request.META.get(BODY_ERROR)
    if refusal is not None and not (refusal.code in INCOMPLETE_BODY and keeps_partial(request)):
        raise refusal
    declared = request.META.get("CONTENT_LENGTH") or ""
    if not declared and "Transfer-Encoding" in request.headers:
        raise HmiError(ErrorCode.INVALID_LENGTH, "Content-Length is missing.")
    if declared and not (declared.isascii() and declared.isdecimal() and len(declared) <= MAX_LENGTH_DIGITS):
        raise HmiError(ErrorCode.INVALID_LENGTH, "Content-Length is not a number.", param="Content-Length")
    check_size(int(declared or 0), request)


def _check_encoding(request: HttpRequest) -> None:
    """Only the Open Inference Protocol accepts compressed bodies, and decompresses them itself."""
    encoding = request.headers.get("Content-Encoding", IDENTITY).strip().lower()
    if encoding not in ("", IDENTITY) and not is_oip_path(request.path):
        message = "Compressed bodies are not accepted here. Send the body without Content-Encoding."
        details = {"accepted": [IDENTITY]}
        raise HmiError(ErrorCode.UNSUPPORTED_TYPE, message, param="Content-Encoding", details=details)


def _check_address(request: HttpRequest) -> None:
    if "\0" in request.path_info:
        raise HmiError(ErrorCode.NOT_FOUND, "This page does not exist.")
    query = request.META.get("QUERY_STRING", "")
    if "%00" in query or "\0" in query:
        raise HmiError(ErrorCode.INVALID_FIELD, "The query string holds a NUL character.", param="query")


def _check_charset(request: HttpRequest) -> None:
    """Django would decode query strings and forms with any of Python's codecs that the client names."""
    if request.encoding is None:
        return
    if request.content_type in FORMS and codecs.lookup(request.encoding).name not in UTF_8:
        message = "The form must be UTF-8. Send it without a charset."
        raise HmiError(ErrorCode.UNSUPPORTED_TYPE, message, param="Content-Type")
    request.encoding = "utf-8"


class RequestScope:
    """Outermost. Starts each request in the empty scope: it sees no tenant's rows.

    Authentication enters the scope of a tenant. For staff in the administration, this enters the platform's.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with empty_scope():
            return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        match, user = request.resolver_match, request.user
        if match and ADMIN_NAMESPACE in match.app_names and user.is_active and user.is_staff:
            enter_platform()


def is_cross_origin_on() -> bool:
    """Whether pages of other origins may call the API."""
    return bool(settings.CORS_ALLOW_ALL_ORIGINS or settings.CORS_ALLOWED_ORIGINS)


class CrossOrigin(CorsMiddleware):
    """Lets pages of the origins in HMI_CORS_ORIGINS call the API; left out if there are none."""

    def __init__(self, *arguments: Any) -> None:
        if not is_cross_origin_on():
            raise MiddlewareNotUsed
        super().__init__(*arguments)


class Compression(GZipMiddleware):
    """Compresses pages and JSON with gzip for those that accept it, but for two kinds of answers: what is
    sent piece by piece, such as events and downloads, since each piece must arrive when it is sent; and those
    of infer requests, which are small."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response, compressed unless it is small, streamed, or of an infer request."""
        if isinstance(response, PendingResponse):
            response.when_complete(partial(self.process_response, request))
            return response
        if response.streaming or request.path == INFER_PATH:
            return response
        return super().process_response(request, response)
