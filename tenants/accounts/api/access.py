"""Base classes of API views: access to one tenant, or to the platform as staff."""

from collections.abc import Mapping
from typing import Any, cast

from django.core.exceptions import ImproperlyConfigured
from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.utils import Direction
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from tenants.accounts.api.idempotency import IdempotentView
from tenants.accounts.authentication import ApiKeyAuthentication, TenantRequest
from tenants.accounts.models import ApiKey, Role, Scope, Tenant
from tenants.accounts.permissions import request_tenant, require_permission, require_staff
from tenants.base.api.pagination import ApiCursorPagination
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import enter_platform, enter_tenant


class TenantAccess(BasePermission):
    """A key needs the view's scope; a member its role for reading or writing. Sets ``request.tenant``."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if isinstance(request.auth, ApiKey) and not view.keys_allowed:
            raise HmiError(ErrorCode.FORBIDDEN, "API keys cannot do this. Sign in instead.")
        role = view.read_role if request.method in SAFE_METHODS else view.write_role
        slug = view.kwargs.get("tenant") or request.query_params.get("tenant")
        tenant = request_tenant(request, slug, view.scope, role=role)
        enter_tenant(tenant)
        cast("TenantRequest", request).tenant = tenant
        return True


class TenantView(IdempotentView, GenericAPIView[Any]):
    """A view in one tenant: that of the key, or the one in the path or in ``?tenant=``."""

    permission_classes = [TenantAccess]
    pagination_class = ApiCursorPagination
    ordering: tuple[str, ...] = ("-pk",)
    scope: str = Scope.MANAGE
    read_role: str = Role.VIEWER
    write_role: str = Role.DEVELOPER
    keys_allowed = True

    @property
    def tenant(self) -> Tenant:
        """The tenant of the request."""
        return cast("TenantRequest", self.request).tenant


class StaffOnly(BasePermission):
    """Signed-in staff with one of the permissions that the view names for the method."""

    def has_permission(self, request: Request, view: Any) -> bool:
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method in view.permissions:
            require_permission(request.user, *view.permissions[method])
        elif method == "OPTIONS" or not hasattr(view, method.lower()):
            require_staff(request.user)
        else:
            raise ImproperlyConfigured(f"{type(view).__name__} must name permissions for {method}.")
        enter_platform()
        return True


class StaffView(IdempotentView, GenericAPIView[Any]):
    """A view for staff, of rows that belong to the platform.

    ``permissions`` maps each method to Django permissions, of which one is enough.
    """

    permission_classes = [StaffOnly]
    permissions: Mapping[str, tuple[str, ...]] = {}
    pagination_class = ApiCursorPagination
    ordering: tuple[str, ...] = ("-pk",)


# Subclasses authenticate the same keys.
set_override(ApiKeyAuthentication, "suppress_collision_warning", True)


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself
    """``Authorization: Bearer <key>``."""

    target_class = "tenants.accounts.authentication.ApiKeyAuthentication"
    name = "ApiKey"
    match_subclasses = True

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "A tenant's API key, also as `X-Api-Key`."}


class StrictSerializerExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # registers itself
    """Unknown fields are rejected, so the schema says ``additionalProperties: false``."""

    target_class = "tenants.base.api.inputs.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Direction) -> dict[str, Any]:
        """Return the schema of the serializer."""
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**schema, "additionalProperties": False}
