"""Whose tree a request is about: a tenant's, or (for staff, at ``platform/…``) the platform's own."""

from typing import Any

from rest_framework.request import Request
from rest_framework.serializers import Serializer

from tenants.accounts.api.access import StaffView, TenantView
from tenants.accounts.models import Tenant


class OwnerView(TenantView):
    """In a tenant: a key with the scope ``manage``, or a member who reads as viewer, writes as developer."""

    @property
    def owner(self) -> Tenant | None:
        """Whose rows."""
        return self.tenant


class PlatformView(StaffView):
    """On the platform: staff, signed in."""

    @property
    def owner(self) -> Tenant | None:
        """Nobody's: the platform's."""
        return None


def asked(serializer: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    """The body, checked for its shape."""
    body = serializer(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def queried(serializer: type[Serializer[Any]], request: Request) -> dict[str, Any]:
    """The query string, checked for its shape."""
    query = serializer(data=request.query_params)
    query.is_valid(raise_exception=True)
    return dict(query.validated_data)
