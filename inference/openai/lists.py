"""Lists as the OpenAI conventions have them: so many from the one after ``after`` on."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar
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


FILE: Final = "file"


UPLOAD: Final = "upload"


PART: Final = "part"


FINE_TUNING: Final = "ftjob"


BATCH: Final = "batch"


_WORDS: Final = {FILE: "file", UPLOAD: "upload", PART: "part", FINE_TUNING: "fine-tuning job", BATCH: "batch"}


_ID: Final = re.compile(r"[0-9a-f]{32}")


def written_id(kind: str, key: UUID) -> str:
    """The id of one of this kind."""
    return f"{kind}-{key.hex}"


def read_id(kind: str, given: str, *, param: str) -> UUID:
    """The key that is written like this; else there is no such thing: ``not_found``."""
    found, _, digits = given.partition("-")
    if found != kind or not _ID.fullmatch(digits):
        shown = ascii(given[:64])
        raise HmiError(ErrorCode.NOT_FOUND, f"There is no {_WORDS[kind]} {shown}.", param=param)
    return UUID(digits)


def unix(moment: datetime | None) -> int | None:
    """Seconds since 1970, as these conventions tell the time."""
    return None if moment is None else int(moment.timestamp())
