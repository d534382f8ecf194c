"""Pagination of lists in the API."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.base.errors import ErrorCode, HmiError


class ApiCursorPagination(CursorPagination):
    """``?limit=&cursor=`` in the view's ``ordering``. Rows that are added meanwhile neither repeat nor hide
    others. ``next`` and ``previous`` are URLs."""

    page_size = 50
    max_page_size = 500
    page_size_query_param = "limit"

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: Any) -> tuple[str, ...]:
        """Return the view's ordering. Few rows may share a value of its first field, which never changes."""
        ordering: tuple[str, ...] = view.ordering
        return ordering

    def get_page_size(self, request: Request) -> int:
        """Return the requested limit, at most 500. Raises ``invalid_field`` unless it is positive."""
        limit = request.query_params.get(self.page_size_query_param)
        if limit is None:
            return self.page_size
        if not (limit.isascii() and limit.isdecimal() and limit.strip("0") and len(limit) < 10):
            message = f"A page has 1 to {self.max_page_size} rows."
            raise HmiError(ErrorCode.INVALID_FIELD, message, param=self.page_size_query_param)
        return min(int(limit), self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        """Return the rows of the cursor's page. Raises ``invalid_field`` for an invalid cursor."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValidationError, ValueError, DataError):
            if self.cursor_query_param not in request.query_params:
                raise
            message = "Invalid cursor. Start without a cursor, then follow the URLs in `next`."
            raise HmiError(ErrorCode.INVALID_FIELD, message, param=self.cursor_query_param) from None


class LinkHeaderPagination(ApiCursorPagination):
    """Pages as bare lists. The ``Link`` header has the URLs of the next and previous page (RFC 8288)."""

    def get_paginated_response(self, data: Any) -> Response:
        """Return the rows with the ``Link`` header."""
        urls = {"next": self.get_next_link(), "prev": self.get_previous_link()}
        links = ", ".join(f'<{url}>; rel="{rel}"' for rel, url in urls.items() if url)
        return Response(data, headers={"Link": links} if links else None)

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> Any:
        """Return the schema of the list itself."""
        return schema
