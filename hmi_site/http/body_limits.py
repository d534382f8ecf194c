"""How much a client may send at once, and who may send more than a little.

A view that takes large bodies says so by ``largest_body`` (see ``tenants.base.upload_concurrency``); no
other gets more than SMALL_BODY_BYTES.
"""

from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.core.handlers.wsgi import WSGIRequest
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from django.urls import Resolver404, resolve

from hmi_site.http.errors import as_hmi_error
from tenants.accounts.authentication import api_key_lately, presented_key
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import nobodys_scope
from tenants.base.upload_concurrency import FILES, INFERENCE, SMALL_BODY_BYTES, release_database

FORM: Final = "multipart/form-data"
FILE_TYPES: Final = {FORM: 1024**2, "application/offset+octet-stream": 0}
"""The content types of files, and how many bytes stand around one."""
LARGE_METHODS: Final = {"POST", "PATCH"}

REFUSAL: Final = "hmi.refusal"
"""Where the WSGI environment has, for `RequestGuard`, why a body is not taken or not whole."""
SENDER: Final = "hmi.sender"
"""Where it has whose body is still coming in while the view runs."""


@dataclass(frozen=True, slots=True)
class Permit:
    """To send a large body of at most ``limit`` bytes. The view reads it as it comes, if ``is_streamed``; one
    that ``keeps_part`` is to have what came before it broke off."""

    limit: int
    sender: int | str
    is_streamed: bool
    keeps_part: bool


def largest_body(request: HttpRequest) -> int:
    """The most bytes that are taken in this request, of its address and content type."""
    small, kind = min(SMALL_BODY_BYTES, int(settings.HMI_MAX_BODY_BYTES)), request.content_type or ""
    setting = getattr(_view(request), "largest_body", None) if request.method in LARGE_METHODS else None
    if setting == INFERENCE:
        return int(settings.HMI_MAX_BODY_BYTES)
    if setting == FILES and kind in FILE_TYPES:
        return int(settings.HMI_UPLOAD_MAX_BYTES) + FILE_TYPES[kind]
    return small


def keeps_part(request: HttpRequest) -> bool:
    """Whether the view is to have what came of a body that broke off."""
    return request.method in getattr(_view(request), "keeps_part_of", ())


def check_size(size: int, request: HttpRequest) -> int:
    """The most bytes that are taken in this request. Raises ``body_too_large`` if these are more."""
    limit = SMALL_BODY_BYTES
    if size > min(limit, int(settings.HMI_MAX_BODY_BYTES)) and size > (limit := largest_body(request)):
        message = f"The body has {size:,} bytes; at most {limit:,} are taken here."
        raise HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"size": size, "limit": limit})
    return limit


def permit(environ: dict[str, Any]) -> Permit:
    """What the caller of a request may send whose body is not small. Asks the database.

    Raises ``body_too_large``, and ``unauthenticated`` where more is taken only from callers who are known.
    """
    request = WSGIRequest(environ)
    limit = largest_body(request)
    size = int(environ.get("CONTENT_LENGTH") or SMALL_BODY_BYTES + 1)
    check_size(size, request)
    try:
        with nobodys_scope():
            sender = _sender(request)
    except (OperationalError, InterfaceError) as error:
        raise as_hmi_error(error) or error from None
    finally:
        release_database()
    if sender is None:
        message = f"More than {SMALL_BODY_BYTES:,} bytes are taken from callers with a key or signed in."
        raise HmiError(ErrorCode.UNAUTHENTICATED, message)
    streamed = getattr(_view(request), "largest_body", None) == FILES
    return Permit(limit, sender, streamed, keeps_part(request))


def _sender(request: HttpRequest) -> int | str | None:
    if (plaintext := presented_key(request)) is not None:
        key = api_key_lately(plaintext)
        return None if key is None else int(key.tenant_id)
    request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    user = get_user(request)
    return f"user {user.pk}" if user.is_authenticated else None


def _view(request: HttpRequest) -> Any:
    """The view of the address, whose class has what it says of itself, if it is one."""
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        return None
    return getattr(view, "cls", None) or getattr(view, "view_class", None) or view
