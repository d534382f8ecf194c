"""What a tenant's infer requests came to."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.base.api.pagination import ApiCursorPagination
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import UsageDay
from tenants.usage.selectors import UsageBy, usage_by, usage_by_day_and_model

USAGE_DAYS: Final = 30


class UsageQuerySerializer(serializers.Serializer[Any]):
    """Which days, and what their usage is added up by."""

    since = serializers.DateField(required=False, help_text="The same as `from`.")
    to = serializers.DateField(required=False, help_text="The last day; today if it is not given.")
    by = serializers.ChoiceField(
        choices=[str(by) for by in UsageBy],
        required=False,
        help_text="Without it, each day of each model has a row.",
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`from` as well, which is no name of an attribute."""
        first = serializers.DateField(required=False, help_text="The first day; 29 days ago if not given.")
        return {"from": first, **super().get_fields()}


class SumSerializer(serializers.Serializer[Any]):
    """Sums; ``machine_ms`` is for how long inference workers were busy."""

    requests = serializers.IntegerField()
    inputs = serializers.IntegerField()
    tokens = serializers.IntegerField()
    failed = serializers.IntegerField()
    machine_ms = serializers.FloatField(source="busy_ms")


class UsageRowSerializer(SumSerializer):
    """One day of one model."""

    day = serializers.DateField()
    model_name = serializers.CharField()


class UsageOfDaySerializer(SumSerializer):
    """One day (UTC)."""

    day = serializers.DateField(source="name")


class UsageOfModelSerializer(SumSerializer):
    """One model, or several that had the name one after the other."""

    model = serializers.CharField(source="name")


class UsageOfKeySerializer(SumSerializer):
    """One API key by its prefix; empty for people in the browser."""

    key = serializers.CharField(source="name")


SHOWN: Final[dict[UsageBy, type[SumSerializer]]] = {
    UsageBy.DAY: UsageOfDaySerializer,
    UsageBy.MODEL: UsageOfModelSerializer,
    UsageBy.KEY: UsageOfKeySerializer,
}


class UsagePagination(ApiCursorPagination):
    """Of sums: many models have the same day, and many the same number of requests."""

    offset_cutoff = 1_000_000

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: Any) -> tuple[str, ...]:
        """What is asked for has its own."""
        return tuple(map(str, queryset.query.order_by))


class UsageView(TenantView):
    """Infer requests of the last 30 days, or of others, by day and model, or added up by one thing."""

    serializer_class = SumSerializer
    pagination_class: Any = UsagePagination
    queryset = UsageDay.unscoped.none()

    @extend_schema(
        parameters=[UsageQuerySerializer],
        responses=PolymorphicProxySerializer(
            "UsageShown", [UsageRowSerializer, *SHOWN.values()], resource_type_field_name=None, many=True
        ),
    )
    def get(self, request: Request, **_: Any) -> Response:
        query = UsageQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        first, last = _days(asked.get("from") or asked.get("since"), asked.get("to"))
        if "by" in asked:
            by = UsageBy(asked["by"])
            page = self.paginate_queryset(usage_by(self.tenant, by, first, last))
            return self.get_paginated_response(SHOWN[by](page, many=True).data)
        page = self.paginate_queryset(usage_by_day_and_model(self.tenant, first, last))
        return self.get_paginated_response(UsageRowSerializer(page, many=True).data)


def _days(first: date | None, last: date | None) -> tuple[date, date | None]:
    """From the first on, or 30 days that end with the last or today."""
    if first is not None and last is not None and last < first:
        raise HmiError(ErrorCode.INVALID_FIELD, "The last day is before the first.", param="to")
    end = last or datetime.now(UTC).date()
    return first or end - timedelta(days=USAGE_DAYS), last
