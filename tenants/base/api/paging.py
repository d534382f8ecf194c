"""Lists in pages."""

from collections.abc import Mapping
from typing import Any, NoReturn

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.base.errors import ErrorCode, HmiError


class Pages(CursorPagination):
    """``?limit=&cursor=``, in the order that the view names as its ``ordering``: what is made meanwhile
    neither repeats nor hides anything. ``next`` and ``previous`` are addresses."""

    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: Any) -> tuple[str, ...]:
        """The first field must be the same for few rows, and never change."""
        ordering: tuple[str, ...] = view.ordering
        return ordering

    def get_page_size(self, request: Request) -> int:
        """What is asked for, 500 at most; ``invalid_field`` where that is no number."""
        asked = request.query_params.get(self.page_size_query_param)
        if asked is None:
            return self.page_size
        if not (asked.isascii() and asked.isdecimal() and asked.strip("0") and len(asked) < 10):
            message = f"A page has 1 to {self.max_page_size} rows."
            raise HmiError(ErrorCode.INVALID_FIELD, message, param=self.page_size_query_param)
        return min(int(asked), self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        """The rows of the page that the cursor names, or ``invalid_field``."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValidationError, ValueError, DataError):
            if self.cursor_query_param in request.query_params:
                _refuse(self.cursor_query_param)
            raise


class LinkedPages(Pages):
    """Pages that are a bare list each, as clients of such a list expect it: the header ``Link`` has the
    addresses of those beside it, as ``next`` and ``prev`` (RFC 8288)."""

    def get_paginated_response(self, data: Any) -> Response:
        """The rows, and where it goes on."""
        beside = {"next": self.get_next_link(), "prev": self.get_previous_link()}
        links = ", ".join(f'<{where}>; rel="{rel}"' for rel, where in beside.items() if where)
        return Response(data, headers={"Link": links} if links else None)

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> Any:
        """The list itself."""
        return schema


def _refuse(param: str) -> NoReturn:
    message = "This cursor is not of this list. Begin without one, and go on by the addresses in `next`."
    raise HmiError(ErrorCode.INVALID_FIELD, message, param=param) from None
