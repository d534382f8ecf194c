"""Tenants of the asking user, and what each uses."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.api.access import Pages, TenantView
from tenants.api.serializers import (
    TenantChangeSerializer,
    TenantDetailSerializer,
    TenantSerializer,
)
from tenants.errors import ErrorCode, HmiError
from tenants.models import ApiKey, Role, Tenant
from tenants.permissions import request_actor
from tenants.selectors import (
    membership_of,
    quota_of,
    rates_of,
    requests_today,
    storage_used,
    tenants_of,
)
from tenants.services.tenants import tenant_set_sharing

TENANT_FIELDS = ("slug", "name", "created_at", "suspended_at", "shares_fragment_counts")


class SomebodyKnown(BasePermission):
    """A signed-in person or a key."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not (isinstance(request.auth, ApiKey) or request.user.is_authenticated):
            raise HmiError(ErrorCode.UNAUTHENTICATED, "Sign in, or send an API key.")
        return True


class TenantsView(ListAPIView[Tenant]):
    """The tenants the user belongs to; a key belongs to one."""

    permission_classes = [SomebodyKnown]
    serializer_class = TenantSerializer
    pagination_class = Pages
    queryset = Tenant.objects.none()

    def get_queryset(self) -> Any:
        """A page is cut from a list as from a query."""
        if isinstance(self.request.auth, ApiKey):
            return Tenant.objects.filter(pk=self.request.auth.tenant_id)
        return tenants_of(self.request.user)


class TenantDetailView(TenantView):
    """One tenant with its quota and how much of it is used; its owner may change what it shares."""

    serializer_class = TenantDetailSerializer
    write_role = Role.OWNER

    def get(self, request: Request, **_: Any) -> Response:
        return self._shown(request)

    @extend_schema(request=TenantChangeSerializer, responses=TenantDetailSerializer)
    def patch(self, request: Request, **_: Any) -> Response:
        asked = TenantChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        tenant_set_sharing(
            tenant=self.tenant,
            shares=asked.validated_data["shares_fragment_counts"],
            actor=request_actor(request),
        )
        return self._shown(request)

    def _shown(self, request: Request) -> Response:
        shown = {
            "role": getattr(membership_of(request.user, self.tenant), "role", None),
            "quota": quota_of(self.tenant),
            "rates": rates_of(self.tenant)._asdict(),
            "storage_used_bytes": storage_used(self.tenant),
            "requests_today": requests_today(self.tenant),
        }
        fields = {name: getattr(self.tenant, name) for name in TENANT_FIELDS}
        return Response(TenantDetailSerializer(fields | shown).data)
