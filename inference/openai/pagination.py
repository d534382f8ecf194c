"""Pagination as OpenAI does it: ``limit`` rows that follow the row with the id ``after``."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.request import Request

from tenants.base.api.inputs import ChoiceField
from tenants.base.errors import ErrorCode, HmiError

Row = TypeVar("Row", bound=Model)

ORDERS = ("desc", "asc")


class ListQuerySerializer(serializers.Serializer[Any]):
    """The query parameters of a list."""

    after = serializers.CharField(required=False, help_text="The last id of the previous page.")
    limit = serializers.IntegerField(required=False, min_value=1, default=20, help_text="At most 100.")
    order = ChoiceField(ORDERS, required=False, default="desc", help_text="By the time of creation.")


def paginated_list(
    rows: QuerySet[Row],
    request: Request,
    to_json: Callable[[Row], dict[str, Any]],
    *,
    parse_id: Callable[[str], UUID | int],
    max_limit: int = 100,
    default_limit: int | None = None,
    created_field: str = "created_at",
) -> dict[str, Any]:
    """The page of the rows that the request asks for, as JSON.

    ``parse_id`` returns the primary key in an id. Raises ``invalid_field``, and ``not_found`` if no row has
    the id ``after``.
    """
    query = list_query(request, max_limit=max_limit, default_limit=default_limit)
    limit, descending = query["limit"], query["order"] == "desc"
    if "after" in query:
        rows = rows.filter(_follows(rows, parse_id(query["after"]), created_field, descending=descending))
    sign = "-" if descending else ""
    found = list(rows.order_by(f"{sign}{created_field}", f"{sign}pk")[: limit + 1])
    return list_json([to_json(row) for row in found[:limit]], has_more=len(found) > limit)


def list_query(request: Request, *, max_limit: int, default_limit: int | None = None) -> dict[str, Any]:
    """The query parameters of a list: ``limit``, ``order`` and, if given, ``after``. Raises
    ``invalid_field``."""
    params = request.query_params.dict()
    if default_limit is not None:
        params.setdefault("limit", str(default_limit))
    serializer = ListQuerySerializer(data=params)
    serializer.is_valid(raise_exception=True)
    query = dict(serializer.validated_data)
    return {**query, "limit": min(query["limit"], max_limit)}


def list_json(data: list[dict[str, Any]], *, has_more: bool = False) -> dict[str, Any]:
    """The JSON value of a list or of a page."""
    return {
        "object": "list",
        "data": data,
        "has_more": has_more,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


def list_schema(serializer: type[serializers.Serializer[Any]], name: str) -> serializers.Serializer[Any]:
    """The OpenAPI schema of a list of these objects, as the component ``name``."""
    fields = {
        "object": serializers.CharField(help_text="`list`."),
        "data": serializer(many=True),
        "has_more": serializers.BooleanField(),
        "first_id": serializers.CharField(allow_null=True),
        "last_id": serializers.CharField(allow_null=True),
    }
    return inline_serializer(name, fields)


def _follows(rows: QuerySet[Row], key: UUID | int, created_field: str, *, descending: bool) -> Q:
    """The condition of the rows that follow this one in the order of the list."""
    moment = rows.filter(pk=key).values_list(created_field, flat=True).first()
    if moment is None:
        raise HmiError(ErrorCode.NOT_FOUND, "The list has no item with this id.", param="after")
    lookup = "lt" if descending else "gt"
    return Q(**{f"{created_field}__{lookup}": moment}) | Q(**{created_field: moment, f"pk__{lookup}": key})
