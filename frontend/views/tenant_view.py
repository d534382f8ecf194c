"""The button that ends an administrator's view of a tenant."""

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from frontend.tenant_view import end_view
from tenants.accounts.models import User


@require_POST
@login_required
def leave(request: HttpRequest) -> HttpResponse:
    """End the view and go back to the tenant's page in the administration."""
    tenant = end_view(request, cast("User", request.user), "left")
    if tenant is None:
        return redirect("frontend:start")
    return redirect("admin:accounts_tenant_change", tenant.pk)
