"""Direct infer requests: reads their headers from the ASGI scope, and writes answers as ASGI messages."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.cache import patch_vary_headers
from rest_framework.renderers import JSONRenderer

from hmi_site.http.cross_origin import is_cross_origin_on
from hmi_site.http.errors import error_headers
from hmi_site.http.middleware import SecurityHeaders
from hmi_site.http.request_body import MAX_LENGTH_DIGITS
from hmi_site.http.request_log import INFER_PATH, log_infer
from hmi_site.metrics.requests import count_answer
from inference.api.errors import rendered
from inference.api.infer import answer_headers
from inference.api.parsers import parse_json
from inference.api.prepared_request import PreparedRequest, prepare_request
from inference.api.rates.headers import rate_headers
from inference.api.rates.limits import Limit, limits_of
from inference.api.rates.spending import local_buckets
from inference.api.request_trace import RequestTrace
from inference.api.validation import REQUEST_ID_HEADER, parse_call, usable_request_id
from inference.api.views import InferView
from tenants.accounts.authentication import api_key_cached
from tenants.accounts.models import Scope
from tenants.accounts.permissions import require_scope
from tenants.base.errors import HmiError
from tenants.base.scope import tenant_scope
from tenants.usage.models import RequestApi

MOST_BYTES: Final = 256 * 1024
"""Of a body: reading more would block the event loop."""
JSON_ACCEPTS: Final = {b"", b"*/*", b"application/json"}
"""Values of the `Accept` header that allow an answer in JSON."""
BEARER: Final = b"bearer"
OK: Final = "ok"
VIEW: Final = "inference_api:infer"
"""The view that metrics and logs name for direct requests."""


@dataclass(frozen=True, slots=True)
class DirectRequest:
    """The headers of an infer request that the event loop may answer. ``key`` is its API key, ``timeout``
    its `X-Timeout-S`, ``request_id`` the caller's own if it is usable, ``size`` the bytes of its body."""

    key: str
    request_id: str | None
    timeout: str | None
    size: int

    def prepare(self, body: bytes, request_id: str) -> PreparedRequest | None:
        """The request with resolved model and token ids; None if only the view can answer it. Raises HmiError
        if the view would refuse it, and CacheMiss within ``cached_only``."""
        key = api_key_cached(self.key)
        if key is None:
            return None
        require_scope(key, Scope.INFER)
        limits = limits_of(key.tenant, key)
        if any(local_buckets().standing(limit).left < 1 for limit in [*limits.requests, *limits.tokens]):
            return None
        call = parse_call(parse_json(body), timeout_header=self.timeout)
        if call.explain:
            return None
        with tenant_scope(key.tenant):
            return prepare_request(call, tenant=key.tenant, key=key, limits=limits, request_id=request_id)


def read_request(scope: dict[str, Any]) -> DirectRequest | None:
    """The infer request of an ASGI scope; None if it is another one, or has headers for the view."""
    if scope["type"] != "http" or scope["path"] != INFER_PATH or scope["method"] != "POST":
        return None
    headers = _headers(scope["headers"])
    if headers is None or scope["query_string"] or not _has_plain_headers(headers):
        return None
    key, size = _key(headers), headers.get(b"content-length", b"")
    request_id, timeout = (_text(headers.get(name)) for name in (b"x-request-id", b"x-timeout-s"))
    most = min(MOST_BYTES, settings.HMI_MAX_BODY_BYTES)
    if key is None or not size.isdigit() or len(size) > MAX_LENGTH_DIGITS or not 0 < int(size) <= most:
        return None
    return DirectRequest(key, usable_request_id(request_id), timeout, int(size))


def _headers(given: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """The headers by name; None if a name occurs twice, which the view decides on."""
    pairs = list(given)
    headers = dict(pairs)
    return headers if len(headers) == len(pairs) else None


def _has_plain_headers(headers: dict[bytes, bytes]) -> bool:
    return (
        b"idempotency-key" not in headers
        and b"transfer-encoding" not in headers
        and b"content-encoding" not in headers
        and not (b"origin" in headers and is_cross_origin_on())
        and headers.get(b"accept", b"") in JSON_ACCEPTS
        and not (settings.HMI_STAFF_TOTP and b"cookie" in headers)
        and (not settings.HMI_HTTPS or headers.get(b"x-forwarded-proto") == b"https")
        and _is_allowed_host(headers.get(b"host", b""), tuple(settings.ALLOWED_HOSTS))
    )


@lru_cache(1024)
def _is_allowed_host(host: bytes, allowed: tuple[str, ...]) -> bool:
    domain, _ = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, allowed)


def _key(headers: dict[bytes, bytes]) -> str | None:
    if (own := headers.get(b"x-api-key")) is not None:
        return _text(own.strip())
    scheme, _, rest = headers.get(b"authorization", b"").partition(b" ")
    return _text(rest.strip()) if scheme.lower() == BEARER else None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


@dataclass(slots=True)
class DirectAnswer:
    """The answer to a direct request, being built; its duration counts from its creation. ``limits`` become
    headers."""

    request_id: str
    limits: Sequence[Limit] = ()
    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    trace: RequestTrace = field(init=False)
    _code: str = OK
    _begun: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.trace = RequestTrace(RequestApi.INFER, self.request_id)

    def result(self, value: dict[str, Any]) -> None:
        """Set the JSON value of a successful answer."""
        self.trace.answer = value
        self.content, self.headers = JSONRenderer().render(value), answer_headers(value)

    def refusal(self, error: HmiError) -> None:
        """Set the error that the answer reports."""
        self.trace.error = error
        self._code, self.headers = str(error.code), error_headers(error)
        self.status, body = rendered(error, INFER_PATH)
        self.content = JSONRenderer().render(body)

    def messages(self) -> list[dict[str, Any]]:
        """The answer as ASGI messages. Counts and logs the request as answered, also for its tenant."""
        common = common_headers(settings.HMI_HTTPS, settings.HMI_STAFF_TOTP)
        headers = {**common, **rate_headers(self.limits), **self.headers}
        headers[REQUEST_ID_HEADER], headers["Content-Length"] = self.request_id, str(len(self.content))
        seconds = time.perf_counter() - self._begun
        count_answer(VIEW, self.status, seconds)
        log_infer(VIEW, self.status, self._code, seconds)
        self.trace.record(self.status, "" if self._code == OK else self._code)
        encoded = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
        ]
        return [
            {"type": "http.response.start", "status": self.status, "headers": encoded},
            {"type": "http.response.body", "body": self.content},
        ]


def _pass_through(response: HttpResponse, _: HttpRequest) -> HttpResponse:
    return response


@lru_cache(4)
def common_headers(secure: bool, staff_by_factor: bool) -> dict[str, str]:
    """The headers that the middleware and the view put on every answer. ``secure``: it goes by HTTPS.
    ``staff_by_factor``: staff need a second factor, so the view reads the session cookie."""
    request = HttpRequest()
    request.method, request.path = "POST", INFER_PATH
    if secure and settings.SECURE_PROXY_SSL_HEADER:
        name, value = settings.SECURE_PROXY_SSL_HEADER
        request.META[name] = value
    response = HttpResponse(
        content_type=JSONRenderer.media_type, headers=InferView().default_response_headers
    )
    for middleware in (SecurityMiddleware, XFrameOptionsMiddleware, SecurityHeaders):
        response = cast("HttpResponse", middleware(partial(_pass_through, response))(request))
    if staff_by_factor:
        patch_vary_headers(response, ["Cookie"])
    return dict(response.headers)
