"""Who asks a model, and for which tenant."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from tenants.accounts.models import ApiKey, Scope, Tenant
from tenants.accounts.permissions import request_tenant
from tenants.base.scope import enter_tenant


class IsIdentified(BasePermission):
    """A key or a signed-in user; what they may do depends on the tenant, which the model's name may say."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ApiKey) or bool(request.user.is_authenticated)


def enter_asked_tenant(request: Request, named: str | None) -> Tenant:
    """The tenant asked for, in whose scope the rest of the request is. A key's tenant is known; that the
    model is another's is for the look-up to refuse."""
    is_key = isinstance(request.auth, ApiKey)
    tenant = request_tenant(
        request, None if is_key else named or request.query_params.get("tenant"), Scope.INFER
    )
    enter_tenant(tenant)
    return tenant
