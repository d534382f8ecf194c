"""Helpers of the views: pagination, rendering, redirects within a tenant, and writes that may fail."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from frontend.access import TenantRequest
from tenants.base.errors import HmiError

PAGE_SIZE = 25

Result = TypeVar("Result")


def paginate(request: HttpRequest, rows: Any, per_page: int = PAGE_SIZE, *, key: str = "page") -> Page[Any]:
    """Return the page that the query parameter `key` names; the nearest valid page if it is out of range."""
    return Paginator(rows, per_page).get_page(request.GET.get(key))


def render_page(request: TenantRequest, template: str, status: int = 200, **context: Any) -> HttpResponse:
    """Render `frontend/<template>` with `access` and `tenant` added to the context."""
    shared = {"access": request.access, "tenant": request.access.tenant}
    return render(request, f"frontend/{template}", {**shared, **context}, status=status)


def redirect_to(request: TenantRequest, name: str, *args: object, message: str = "") -> HttpResponse:
    """Redirect to a page of the same tenant, which shows the message."""
    if message:
        messages.success(request, message)
    return redirect(f"frontend:{name}", request.access.tenant.slug, *args)


def try_write(form: Form, write: Callable[[], Result]) -> Result | None:
    """Run a write. On a typed error, add it to the form (to its field if it names one) and return None."""
    try:
        return write()
    except HmiError as error:
        name = (error.param or "").removeprefix("settings.")
        form.add_error(name if name in form.fields else None, error.message)
        return None


def run_action(request: TenantRequest, write: Callable[[], object], *, message: str = "") -> bool:
    """Run the write behind a button and queue a message. Return False if it failed with a typed error, whose
    text is then the message. Raises HmiError if the object is absent or forbidden."""
    try:
        write()
    except HmiError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            raise
        messages.error(request, error.message)
        return False
    if message:
        messages.success(request, message)
    return True
