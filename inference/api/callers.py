"""Who asks a model, and for which tenant; and whether they still may while the answer is written."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from inference.api.rates.throttles import key_of
from tenants.accounts.authentication import api_key_still_usable
from tenants.accounts.models import ApiKey, Scope, Tenant
from tenants.accounts.permissions import ROLE_OF_SCOPE, request_tenant, require_scope, tenant_for
from tenants.base.scope import enter_tenant


class IsIdentified(BasePermission):
    """A key or a signed-in user; what they may do depends on the tenant, which the model's name may say."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ApiKey) or bool(request.user.is_authenticated)


def enter_asked_tenant(request: Request, named: str | None) -> Tenant:
    """The tenant asked for, in whose scope the rest of the request is. A key's tenant is known; that the
    model is another's is for the look-up to refuse. `count_member_request` is the next step."""
    is_key = isinstance(request.auth, ApiKey)
    tenant = request_tenant(
        request, None if is_key else named or request.query_params.get("tenant"), Scope.INFER
    )
    enter_tenant(tenant)
    return tenant


def caller_check(request: Request, tenant: Tenant) -> Callable[[], None]:
    """What raises HmiError once the request would be refused: its key was revoked, has expired or lost its
    scope, its member was removed or signed out, or the tenant is suspended or being deleted."""
    key = key_of(request)
    if key is not None:
        return partial(_check_key, key)
    return partial(_check_session, request.session.session_key, tenant.slug)


def _check_key(key: ApiKey) -> None:
    require_scope(api_key_still_usable(key), Scope.INFER)


def _check_session(session_key: str | None, slug: str) -> None:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    tenant_for(get_user(request), slug, ROLE_OF_SCOPE[Scope.INFER])
