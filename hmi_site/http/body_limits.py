"""How large a request's body may be: by address and content type, and by who sends it.

A view accepts large bodies by its attribute ``body_limit_setting`` (see ``tenants.base.upload_concurrency``).
No other accepts more than SMALL_BODY_BYTES.
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
from tenants.accounts.authentication import api_key_cached, presented_key
from tenants.base.characters import check_characters
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import empty_scope
from tenants.base.upload_concurrency import (
    INFER_BODY_LIMIT,
    SMALL_BODY_BYTES,
    UPLOAD_BODY_LIMIT,
    release_database,
)

FORM: Final = "multipart/form-data"
FILE_TYPES: Final = {FORM: 1024**2, "application/offset+octet-stream": 0, "application/octet-stream": 0}
"""Content types of files, with the bytes that a request may have besides its file."""
LARGE_METHODS: Final = {"POST", "PATCH"}

BODY_ERROR: Final = "hmi.body_error"
"""WSGI variable: why the body is refused or incomplete. `RequestGuard` raises it."""
BODY_SENDER: Final = "hmi.body_sender"
"""WSGI variable: who sends the body that the view reads as a stream."""


@dataclass(frozen=True, slots=True)
class BodyPermit:
    """Permission to send a large body of at most ``limit`` bytes.

    ``is_streamed``: the view reads it while it arrives. ``keeps_partial``: the view wants what arrived of a
    body that broke off.
    """

    limit: int
    sender: int | str
    is_streamed: bool
    keeps_partial: bool


def body_limit(request: HttpRequest) -> int:
    """The most bytes that a body may have at this address, with this content type."""
    small = min(SMALL_BODY_BYTES, int(settings.HMI_MAX_BODY_BYTES))
    setting = _body_limit_setting(request) if request.method in LARGE_METHODS else None
    content_type = request.content_type or ""
    if setting == INFER_BODY_LIMIT:
        return int(settings.HMI_MAX_BODY_BYTES)
    if setting == UPLOAD_BODY_LIMIT and content_type in FILE_TYPES:
        return int(settings.HMI_UPLOAD_MAX_BYTES) + FILE_TYPES[content_type]
    return small


def keeps_partial(request: HttpRequest) -> bool:
    """Whether the view wants what arrived of a body that broke off."""
    return request.method in getattr(_view(request), "keeps_partial_body", ())


def check_size(size: int, request: HttpRequest) -> None:
    """Raise ``body_too_large`` if a body of ``size`` bytes is too large for this request."""
    if size <= min(SMALL_BODY_BYTES, int(settings.HMI_MAX_BODY_BYTES)):
        return
    if size > (limit := body_limit(request)):
        message = f"The body has {size:,} bytes. The limit of this address is {limit:,}."
        raise HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"size": size, "limit": limit})


def body_permit(environ: dict[str, Any]) -> BodyPermit:
    """Let the sender of a request send a large body. Queries the database.

    Raises ``body_too_large``, and ``unauthenticated`` for anonymous senders.
    """
    request = WSGIRequest(environ)
    check_size(int(environ.get("CONTENT_LENGTH") or SMALL_BODY_BYTES + 1), request)
    try:
        with empty_scope():
            sender = _sender(request)
    except (OperationalError, InterfaceError) as error:
        raise as_hmi_error(error) or error from None
    finally:
        release_database()
    if sender is None:
        message = f"A body of more than {SMALL_BODY_BYTES:,} bytes needs an API key or a signed-in user."
        raise HmiError(ErrorCode.UNAUTHENTICATED, message)
    return BodyPermit(
        limit=body_limit(request),
        sender=sender,
        is_streamed=_body_limit_setting(request) == UPLOAD_BODY_LIMIT,
        keeps_partial=keeps_partial(request),
    )


def _sender(request: HttpRequest) -> int | str | None:
    if (plaintext := presented_key(request)) is not None:
        key = api_key_cached(plaintext)
        return None if key is None else int(key.tenant_id)
    check_characters(request.COOKIES)
    request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    user = get_user(request)
    return f"user {user.pk}" if user.is_authenticated else None


def _body_limit_setting(request: HttpRequest) -> str | None:
    return getattr(_view(request), "body_limit_setting", None)


def _view(request: HttpRequest) -> Any:
    """The view of the address: its class, if it has one."""
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        return None
    return getattr(view, "cls", None) or getattr(view, "view_class", None) or view
