"""API keys in requests: ``Authorization: Bearer <key>`` or ``X-Api-Key: <key>``."""

from hashlib import sha256
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from structlog.contextvars import bind_contextvars

from tenants.accounts.models import ApiKey, Tenant
from tenants.accounts.models.api_key import KEY_PATTERN
from tenants.accounts.services.api_keys import api_key_touch
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import enter_tenant, platform_scope
from tenants.base.ttl_cache import cached

INVALID_KEY_MESSAGE = "This API key is not valid: unknown, revoked or expired."


class TenantRequest(Request):
    """A request with its tenant."""

    tenant: Tenant


class ApiKeyAuthentication(BaseAuthentication):
    """Sets ``request.auth`` to the key and ``request.tenant`` to its tenant; the user stays anonymous.

    A key acts for its tenant, not for the person who created it. Unknown, revoked and expired keys get the
    same response (401).
    """

    def authenticate(self, request: Request) -> tuple[Any, ApiKey] | None:
        plaintext = presented_key(request)
        if plaintext is None:
            return None
        key = self.find(plaintext)
        if key is None:
            raise AuthenticationFailed(INVALID_KEY_MESSAGE)
        bind_contextvars(tenant=key.tenant.slug)
        enter_tenant(key.tenant)
        cast("TenantRequest", request).tenant = key.tenant
        return AnonymousUser(), key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def find(self, plaintext: str) -> ApiKey | None:
        """Return the usable key with this plaintext and record its use, or None."""
        return api_key_authenticate(plaintext)


class CachedApiKeyAuthentication(ApiKeyAuthentication):
    """Caches keys and their tenants, for endpoints with many requests a second.

    Revocation and suspension take effect after at most HMI_KEY_CACHE_S.
    """

    def find(self, plaintext: str) -> ApiKey | None:
        return api_key_cached(plaintext)


def api_key_cached(plaintext: str) -> ApiKey | None:
    """`api_key_authenticate`, with a result that may be HMI_KEY_CACHE_S old."""
    # The cache has a digest, so that a memory dump reveals no key.
    name = f"api-key:{sha256(plaintext.encode()).hexdigest()}"
    key = cached(name, lambda: api_key_authenticate(plaintext), settings.HMI_KEY_CACHE_S)
    return None if key is None or key.has_expired else key


def api_key_authenticate(plaintext: str) -> ApiKey | None:
    """Return the usable key with this plaintext and record its use, or None."""
    key = api_key_from(plaintext)
    if key is not None:
        api_key_touch(api_key=key)
    return key


def api_key_from(plaintext: str) -> ApiKey | None:
    """Return the usable key with this plaintext and its tenant, or None."""
    if not KEY_PATTERN.fullmatch(plaintext):
        return None
    try:
        with platform_scope():
            key = ApiKey.unscoped.get_from_key(plaintext)
    except ApiKey.DoesNotExist:
        return None
    return key if isinstance(key, ApiKey) and not key.has_expired else None


def api_key_still_usable(api_key: ApiKey) -> ApiKey:
    """Return the key as it is now, with its tenant. Raises ``unauthenticated`` if it has been revoked or has
    expired. The result may be HMI_KEY_CACHE_S old."""

    def load() -> ApiKey | None:
        with platform_scope():
            return ApiKey.unscoped.get_usable_keys().filter(pk=api_key.pk).first()

    key = cached(f"usable-api-key:{api_key.pk}", load, settings.HMI_KEY_CACHE_S)
    if key is None or key.has_expired:
        raise HmiError(ErrorCode.UNAUTHENTICATED, INVALID_KEY_MESSAGE)
    return key


def presented_key(request: Request | HttpRequest) -> str | None:
    """Return the API key in the headers of the request, or None."""
    header = request.headers.get("X-Api-Key")
    if header is not None:
        return header.strip()
    scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else None
