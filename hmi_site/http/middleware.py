"""Guards in front of every view, and the pages of errors that views raise."""

from collections.abc import Callable
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from csp.constants import HEADER, SELF, UNSAFE_EVAL
from csp.utils import build_policy
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from hmi_site.accounts import second_factor_required
from hmi_site.http.body_limits import FORM, REFUSAL, SENDER, check_size, keeps_part
from hmi_site.http.errors import answer
from inference.api.errors import speaks_json
from inference.open_inference.bodies import speaks_oip
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import enter_platform, nobodys_scope
from tenants.base.upload_concurrency import release_database, upload_slot

GetResponse = Callable[[HttpRequest], HttpResponse]


ADMIN_PATH = "/admin/"


IDENTITY = "identity"


PERMISSIONS = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"


BROKEN_OFF = {ErrorCode.BODY_TRUNCATED, ErrorCode.BODY_TOO_SLOW}


STAYS_OPEN = ("account_", "mfa_", "health-")


FACTOR_FIRST = "Staff of this installation sign in with a second factor: set yours up on the site first."


class RequestGuard:
    """Refuses what no view can use, before anything reads it: bodies beyond the limit or not whole, NUL in
    addresses. Large forms of people who are signed in are read before anything looks for their CSRF token."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            _check_body(request)
            _check_encoding(request)
            _check_address(request)
        except HmiError as error:
            return answer(request, error)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, *_: Any) -> HttpResponse | None:
        """Without a connection to the database, in one of the sender's places. Views of the API, which are
        exempt from the middleware of CSRF, do the same themselves."""
        sender = request.META.get(SENDER)
        if sender is None or request.content_type != FORM or getattr(view, "csrf_exempt", False):
            return None
        try:
            with upload_slot(sender):
                release_database()
                request.POST  # noqa: B018 - it is read here
        except HmiError as error:
            return answer(request, error)
        return None


class BrowserRules:
    """What a browser may do with a page: the content policy of settings.py, and no sensors or payments.

    The pages of the administration are unfold's, whose Alpine.js makes functions of attributes. So they, and
    no others, may do that.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._policy = build_policy()
        self._looser = build_policy(update={"script-src": [SELF, UNSAFE_EVAL]})

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        looser = request.path.startswith(ADMIN_PATH)
        response.headers[HEADER] = self._looser if looser else self._policy
        response.headers["Permissions-Policy"] = PERMISSIONS
        return response


class StaffSecondFactor:
    """Leads staff who have no second factor to the page that sets one up, if HMI_STAFF_TOTP asks for it."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        """The pages of one's own account stay open: the factor is set up there. Health asks no database."""
        match, user = request.resolver_match, request.user
        if not settings.HMI_STAFF_TOTP or (match and match.view_name.startswith(STAYS_OPEN)):
            return None
        if not user.is_authenticated or not second_factor_required(user):
            return None
        if is_mfa_enabled(user, [Authenticator.Type.TOTP]):
            return None
        if speaks_json(request.path):
            return answer(request, HmiError(ErrorCode.FORBIDDEN, FACTOR_FIRST))
        messages.warning(request, FACTOR_FIRST)
        return redirect("mfa_activate_totp")


class ErrorPages:
    """Renders the typed errors of views that DRF does not handle."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """None leaves 404, 403 and the unexpected to Django's own handlers (see errors.py)."""
        return answer(request, exception) if isinstance(exception, HmiError) else None


def _check_body(request: HttpRequest) -> None:
    refusal: HmiError | None = request.META.get(REFUSAL)
    if refusal is not None and not (refusal.code in BROKEN_OFF and keeps_part(request)):
        raise refusal
    declared = request.META.get("CONTENT_LENGTH") or ""
    if not declared and "Transfer-Encoding" in request.headers:
        raise HmiError(ErrorCode.INVALID_LENGTH, "This server needs to be told Content-Length.")
    if declared and not declared.isdecimal():
        raise HmiError(ErrorCode.INVALID_LENGTH, "Content-Length is not a number.", param="Content-Length")
    check_size(int(declared or 0), request)


def _check_encoding(request: HttpRequest) -> None:
    """Only the Open Inference Protocol takes packed bodies, and unpacks them itself."""
    encoding = request.headers.get("Content-Encoding", IDENTITY).strip().lower()
    if encoding not in ("", IDENTITY) and not speaks_oip(request.path):
        message = "Send the body as it is: packed ones are not taken here."
        details = {"accepted": [IDENTITY]}
        raise HmiError(ErrorCode.UNSUPPORTED_TYPE, message, param="Content-Encoding", details=details)


def _check_address(request: HttpRequest) -> None:
    if "\0" in request.path_info:
        raise HmiError(ErrorCode.NOT_FOUND, "There is nothing at this address.")
    query = request.META.get("QUERY_STRING", "")
    if "%00" in query or "\0" in query:
        raise HmiError(ErrorCode.INVALID_FIELD, "The query string holds a NUL character.", param="query")


ADMIN_NAMESPACE = "admin"


class RequestScope:
    """Outermost. Each request begins in nobody's scope; who finds out whose it is enters that one: pages of
    a tenant, the API and, for the administration, this."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with nobodys_scope():
            return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """The administration is for staff, who see all; who may do what there, it asks itself."""
        match, user = request.resolver_match, request.user
        if match and ADMIN_NAMESPACE in match.app_names and user.is_active and user.is_staff:
            enter_platform()
