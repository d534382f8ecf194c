"""Shorthand of the views: render a page or its fragment, act and go somewhere of the same tenant."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from frontend.access import TenantRequest
from tenants.base.errors import HmiError

_HIDDEN = (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN)


def show(request: TenantRequest, template: str, status: int = 200, **context: Any) -> HttpResponse:
    """Render `frontend/<template>` with the tenant and the place beside the given context."""
    shared = {"place": request.place, "tenant": request.place.tenant}
    return render(request, f"frontend/{template}", {**shared, **context}, status=status)


def go(request: TenantRequest, name: str, *args: object, said: str = "") -> HttpResponse:
    """Redirect to a page of the same tenant, leaving a message for it."""
    if said:
        messages.success(request, said)
    return redirect(f"frontend:{name}", request.place.tenant.slug, *args)


def act(request: TenantRequest, write: Callable[[], object], *, said: str = "") -> bool:
    """Do what a button asks and leave a message; true when it was refused, with the reason as the message.

    What is not there or not allowed stays an error.
    """
    try:
        write()
    except HmiError as refusal:
        if refusal.status in _HIDDEN:
            raise
        messages.error(request, refusal.message)
        return True
    if said:
        messages.success(request, said)
    return False
