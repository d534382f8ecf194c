"""Helpers for views: pagination, rendering, redirects within a tenant, forms and buttons that write."""

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


def submit_form(form: Form, save: Callable[[], Result]) -> Result | None:
    """Validate the form and return the result of `save`. Return None if either fails.

    The message of an HmiError is added to the field it names, otherwise to the form.
    """
    if not form.is_valid():
        return None
    try:
        return save()
    except HmiError as error:
        name = (error.param or "").removeprefix("settings.")
        form.add_error(name if name in form.fields else None, error.message)
        return None


def run_action(request: TenantRequest, write: Callable[[], object], *, message: str = "") -> bool:
    """Run the write behind a button and queue a message. Return False if it failed; the message says why."""
    return action_result(request, lambda: (write(),), message=message) is not None


def action_result(request: TenantRequest, write: Callable[[], Result], *, message: str = "") -> Result | None:
    """Return the result of the write behind a button, and queue a message. Return None if it failed.

    Raises HmiError if the object does not exist or the user may not write it.
    """
    try:
        result = write()
    except HmiError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            raise
        messages.error(request, error.message)
        return None
    if message:
        messages.success(request, message)
    return result
