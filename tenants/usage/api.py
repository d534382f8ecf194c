"""API of usage: infer requests of a tenant by day, model or key."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.base.api.inputs import validated_query
from tenants.base.api.pagination import ApiCursorPagination
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import UsageDay
from tenants.usage.selectors import UsageBy, usage_by, usage_by_day_and_model

USAGE_DAYS: Final = 30


class UsageQuerySerializer(serializers.Serializer[Any]):
    """The period, and what its usage is summed by."""

    since = serializers.DateField(required=False, help_text="The same as `from`.")
    to = serializers.DateField(required=False, help_text="The last day; today if it is not given.")
    by = serializers.ChoiceField(
        choices=[str(by) for by in UsageBy],
        required=False,
        help_text="Without it, each day of each model has a row.",
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `from`, a keyword that cannot be an attribute."""
        first = serializers.DateField(required=False, help_text="The first day; 29 days ago if not given.")
        return {"from": first, **super().get_fields()}


class SumSerializer(serializers.Serializer[Any]):
    """Sums. ``tokens`` are those read and those generated; ``machine_ms`` is how long inference workers were
    busy."""

    requests = serializers.IntegerField()
    inputs = serializers.IntegerField()
    tokens = serializers.IntegerField()
    generated_tokens = serializers.IntegerField()
    failed = serializers.IntegerField()
    machine_ms = serializers.FloatField(source="busy_ms")


class UsageRowSerializer(SumSerializer):
    """Usage of one model on one day."""

    day = serializers.DateField()
    model_name = serializers.CharField()


class UsageOfDaySerializer(SumSerializer):
    """Usage of one day (UTC)."""

    day = serializers.DateField(source="name")


class UsageOfModelSerializer(SumSerializer):
    """Usage of one model name, which several models may have had in turn."""

    model = serializers.CharField(source="name")


class UsageOfKeySerializer(SumSerializer):
    """Usage of one API key, by its prefix. It is empty for requests from the browser."""

    key = serializers.CharField(source="name")


ROW_SERIALIZERS: Final[dict[UsageBy, type[SumSerializer]]] = {
    UsageBy.DAY: UsageOfDaySerializer,
    UsageBy.MODEL: UsageOfModelSerializer,
    UsageBy.KEY: UsageOfKeySerializer,
}


class UsagePagination(ApiCursorPagination):
    """Pagination of sums. Many rows share a day or a number of requests, so offsets must be large."""

    offset_cutoff = 1_000_000

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: Any) -> tuple[str, ...]:
        """Return the ordering of the queryset."""
        return tuple(map(str, queryset.query.order_by))


class UsageView(TenantView):
    """Infer requests by day and model, or summed by day, model or key. By default of the last 30 days."""

    serializer_class = SumSerializer
    pagination_class: Any = UsagePagination
    queryset = UsageDay.unscoped.none()

    @extend_schema(
        parameters=[UsageQuerySerializer],
        responses=PolymorphicProxySerializer(
            "UsageShown",
            [UsageRowSerializer, *ROW_SERIALIZERS.values()],
            resource_type_field_name=None,
            many=True,
        ),
    )
    def get(self, request: Request, **_: Any) -> Response:
        query = validated_query(UsageQuerySerializer, request)
        first, last = _period(query.get("from") or query.get("since"), query.get("to"))
        if "by" in query:
            by = UsageBy(query["by"])
            page = self.paginate_queryset(usage_by(self.tenant, by, first, last))
            return self.get_paginated_response(ROW_SERIALIZERS[by](page, many=True).data)
        page = self.paginate_queryset(usage_by_day_and_model(self.tenant, first, last))
        return self.get_paginated_response(UsageRowSerializer(page, many=True).data)


def _period(first: date | None, last: date | None) -> tuple[date, date | None]:
    """Return the given days. Without the first, the period has 30 days."""
    if first is not None and last is not None and last < first:
        raise HmiError(ErrorCode.INVALID_FIELD, "The last day is before the first.", param="to")
    end = last or datetime.now(UTC).date()
    return first or end - timedelta(days=USAGE_DAYS), last
