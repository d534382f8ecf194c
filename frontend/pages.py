"""Shorthand of the views: render a page or its fragment, act and go somewhere of the same tenant."""

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

ROWS = 25


def page_of(request: HttpRequest, rows: Any, per_page: int = ROWS, *, key: str = "page") -> Page[Any]:
    """The page that `?page=` names; the nearest there is where that is none."""
    return Paginator(rows, per_page).get_page(request.GET.get(key))


Result = TypeVar("Result")


def attempt(form: Form, write: Callable[[], Result]) -> Result | None:
    """Run a write. A typed refusal becomes an error of the form (on its field when it names one) and None."""
    try:
        return write()
    except HmiError as refusal:
        form.add_error(_field_of(form, refusal.param), refusal.message)
        return None


def _field_of(form: Form, param: str | None) -> str | None:
    """The field that the refusal is about; a setting of a job stands in the form under its own name."""
    name = (param or "").removeprefix("settings.")
    return name if name in form.fields else None


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
