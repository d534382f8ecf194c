"""Which requests are plain, and what they say."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from hmi_site.http.request_log import INFER_PATH
from inference.api.parsers import parse_json
from inference.api.prepared_request import PreparedRequest, prepare_request
from inference.api.rates.limits import limits_of
from inference.api.rates.spending import local_buckets
from inference.api.validation import parse_call, usable_request_id
from tenants.accounts.authentication import api_key_cached
from tenants.accounts.models import Scope
from tenants.accounts.permissions import require_scope
from tenants.base.scope import tenant_scope

MOST_BYTES: Final = 256 * 1024
"""Of a body: reading more would keep the event loop from others."""
ANYTHING: Final = {b"", b"*/*", b"application/json"}
"""What a caller may accept who gets JSON."""
BEARER: Final = b"bearer"


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A request to infer, by its headers. ``request_id`` is the caller's own, if it is usable; a body of
    ``size`` bytes follows."""

    key: str
    request_id: str | None
    timeout: str | None
    size: int

    def prepare(self, body: bytes, request_id: str) -> PreparedRequest | None:
        """What it asks. None for what only the view can answer. Raises HmiError for what is to be refused,
        and CacheMiss where ``cached_only`` is in force."""
        key = api_key_cached(self.key)
        if key is None:
            return None
        require_scope(key, Scope.INFER)
        limits = limits_of(key.tenant, key)
        if any(local_buckets().standing(limit).left < 1 for limit in [*limits.requests, *limits.tokens]):
            return None
        call = parse_call(parse_json(body), timeout_header=self.timeout)
        if call.miss_policy is not None or call.explain:
            return None
        with tenant_scope(key.tenant):
            return prepare_request(call, tenant=key.tenant, key=key, limits=limits, request_id=request_id)


def plain(scope: dict[str, Any]) -> PlainCall | None:
    """The call that a request of ASGI is; None if it is another one, or has something about it that the view
    is to look at."""
    if scope["type"] != "http" or scope["path"] != INFER_PATH or scope["method"] != "POST":
        return None
    headers = _headers(scope["headers"])
    if headers is None or scope["query_string"] or not _is_welcome(headers):
        return None
    key, size = _key(headers), headers.get(b"content-length", b"")
    request_id, timeout = (_text(headers.get(name)) for name in (b"x-request-id", b"x-timeout-s"))
    most = min(MOST_BYTES, settings.HMI_MAX_BODY_BYTES)
    if key is None or not size.isdigit() or not 0 < int(size) <= most:
        return None
    return PlainCall(key, usable_request_id(request_id), timeout, int(size))


def _headers(given: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """None where one stands twice: who reads such a request otherwise is to decide what it says."""
    pairs = list(given)
    headers = dict(pairs)
    return headers if len(headers) == len(pairs) else None


def _is_welcome(headers: dict[bytes, bytes]) -> bool:
    return (
        b"idempotency-key" not in headers
        and b"transfer-encoding" not in headers
        and b"content-encoding" not in headers
        and headers.get(b"accept", b"") in ANYTHING
        and not (settings.HMI_STAFF_TOTP and b"cookie" in headers)
        and (not settings.HMI_HTTPS or headers.get(b"x-forwarded-proto") == b"https")
        and _is_ours(headers.get(b"host", b""), tuple(settings.ALLOWED_HOSTS))
    )


@lru_cache(1024)
def _is_ours(host: bytes, allowed: tuple[str, ...]) -> bool:
    domain, _ = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, allowed)


def _key(headers: dict[bytes, bytes]) -> str | None:
    if (own := headers.get(b"x-api-key")) is not None:
        return _text(own.strip())
    scheme, _, rest = headers.get(b"authorization", b"").partition(b" ")
    return _text(rest.strip()) if scheme.lower() == BEARER else None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
