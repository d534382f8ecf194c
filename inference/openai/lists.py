"""Lists as the OpenAI conventions have them: so many from the one after ``after`` on."""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.request import Request

from tenants.base.errors import ErrorCode, HmiError

Row = TypeVar("Row", bound=Model)
ORDERS = ("desc", "asc")


class ListQuerySerializer(serializers.Serializer[Any]):
    """Which part of a list."""

    after = serializers.CharField(required=False, help_text="The last id of the part before.")
    limit = serializers.IntegerField(required=False, min_value=1, default=20, help_text="At most 100.")
    order = serializers.ChoiceField(ORDERS, required=False, default="desc", help_text="By when it was made.")


def listed(
    rows: QuerySet[Row],
    request: Request,
    shown: Callable[[Row], dict[str, Any]],
    *,
    read: Callable[[str], UUID | int],
    most: int = 100,
    default: int | None = None,
    made: str = "created_at",
) -> dict[str, Any]:
    """The part of these rows that the request asks for, as JSON. ``read`` finds the key in an id, ``made`` is
    the column of when each was made. Raises ``invalid_field``; ``not_found`` for an ``after`` that is not
    among them."""
    given = request.query_params.dict()
    if default is not None:
        given.setdefault("limit", str(default))
    query = ListQuerySerializer(data=given)
    query.is_valid(raise_exception=True)
    asked = query.validated_data
    limit, falling = min(asked["limit"], most), asked["order"] == "desc"
    if "after" in asked:
        rows = rows.filter(_beyond(rows, read(asked["after"]), made, falling=falling))
    sign = "-" if falling else ""
    found = list(rows.order_by(f"{sign}{made}", f"{sign}pk")[: limit + 1])
    return as_list([shown(row) for row in found[:limit]], has_more=len(found) > limit)


def as_list(data: list[dict[str, Any]], *, has_more: bool = False) -> dict[str, Any]:
    """The JSON value of a list."""
    ends = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {
        "object": "list",
        "data": data,
        "has_more": has_more,
        "first_id": ends[0],
        "last_id": ends[1],
    }


def list_of(serializer: type[serializers.Serializer[Any]], name: str) -> serializers.Serializer[Any]:
    """How such a list stands in the OpenAPI description."""
    fields = {
        "object": serializers.CharField(help_text="`list`."),
        "data": serializer(many=True),
        "has_more": serializers.BooleanField(),
        "first_id": serializers.CharField(allow_null=True),
        "last_id": serializers.CharField(allow_null=True),
    }
    return inline_serializer(name, fields)


def _beyond(rows: QuerySet[Row], key: UUID | int, made: str, *, falling: bool) -> Q:
    moment = rows.filter(pk=key).values_list(made, flat=True).first()
    if moment is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is nothing with this id in the list.", param="after")
    way = "lt" if falling else "gt"
    return Q(**{f"{made}__{way}": moment}) | Q(**{made: moment, f"pk__{way}": key})
