"""API of tenants: list those of the user, show quota and usage, change settings."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.api.serializers import (
    SETTINGS,
    TenantChangeSerializer,
    TenantDetailSerializer,
    TenantSerializer,
)
from tenants.accounts.models import ApiKey, Role, Tenant
from tenants.accounts.permissions import UNAUTHENTICATED_MESSAGE, request_actor
from tenants.accounts.selectors import membership_of, tenants_joined
from tenants.accounts.services.tenants import (
    tenant_set_answer_checks,
    tenant_set_auto_rebase,
    tenant_set_request_texts,
)
from tenants.base.api.inputs import validated_body
from tenants.base.api.object_view import ObjectView
from tenants.base.api.pagination import ApiCursorPagination
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import platform_scope
from tenants.usage.selectors import quota_of, rates_of, requests_today, storage_used_bytes

TENANT_FIELDS = ("slug", "name", "created_at", "suspended_at", *SETTINGS)


class IsAuthenticatedOrKey(BasePermission):
    """A signed-in user or an API key."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not (isinstance(request.auth, ApiKey) or request.user.is_authenticated):
            raise HmiError(ErrorCode.UNAUTHENTICATED, UNAUTHENTICATED_MESSAGE)
        return True


class TenantsView(GenericAPIView[Tenant]):
    """List the caller's tenants. A key has one tenant."""

    permission_classes = [IsAuthenticatedOrKey]
    serializer_class = TenantSerializer
    pagination_class = ApiCursorPagination
    queryset = Tenant.objects.none()
    ordering = ("slug",)

    @extend_schema(responses=TenantSerializer(many=True))
    def get(self, request: Request) -> Response:
        with platform_scope():
            page = self.paginate_queryset(_tenants_of(request))
        return self.get_paginated_response(TenantSerializer(page, many=True).data)


class TenantDetailView(ObjectView, TenantView):
    """Get a tenant with its quota and usage."""

    serializer_class = TenantDetailSerializer
    write_role = Role.OWNER

    def find_object(self, **_: Any) -> Tenant:
        """Return the tenant from the database: that of the request may come from a cache."""
        return Tenant.objects.get(pk=self.tenant.pk)

    def represent(self, row: Tenant) -> Mapping[str, Any]:
        usage = {
            "role": getattr(membership_of(self.request.user, row), "role", None),
            "quota": quota_of(row),
            "rates": rates_of(row)._asdict(),
            "storage_used_bytes": storage_used_bytes(row),
            "requests_today": requests_today(row),
        }
        fields = {name: getattr(row, name) for name in TENANT_FIELDS}
        return TenantDetailSerializer(fields | usage).data

    @extend_schema(request=TenantChangeSerializer, responses=TenantDetailSerializer)
    def patch(self, request: Request, **_: Any) -> Response:
        """Change a tenant's settings. Only owners can."""
        data = validated_body(TenantChangeSerializer, request)
        tenant, actor = self.tenant, request_actor(request)
        if "checks_answers" in data:
            tenant_set_answer_checks(tenant=tenant, checks=data["checks_answers"], actor=actor)
        if "keeps_request_texts" in data:
            tenant_set_request_texts(tenant=tenant, keeps=data["keeps_request_texts"], actor=actor)
        if "auto_rebase" in data:
            tenant_set_auto_rebase(tenant=tenant, rebases=data["auto_rebase"], actor=actor)
        return Response(self.represent(self.find_object()))


def _tenants_of(request: Request) -> QuerySet[Tenant]:
    if isinstance(request.auth, ApiKey):
        return Tenant.objects.filter(pk=request.auth.tenant_id)
    return tenants_joined(request.user)
