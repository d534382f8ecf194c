"""Lists in pages: which of them a request asks for."""

from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest

ROWS = 25


def page_of(request: HttpRequest, rows: Any, per_page: int = ROWS, *, key: str = "page") -> Page[Any]:
    """The page that `?page=` names; the nearest there is where that is none."""
    return Paginator(rows, per_page).get_page(request.GET.get(key))
