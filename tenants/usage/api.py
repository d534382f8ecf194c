"""API of usage: infer requests of a tenant by day, model or key, and single ones of the last days."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.base.api.inputs import ChoiceField, validated_query
from tenants.base.api.pagination import ApiCursorPagination
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import LoggedRequest, RequestStatus, UsageDay
from tenants.usage.request_selectors import RequestFilter, requests_of
from tenants.usage.selectors import UsageBy, usage_by, usage_by_day_and_model

USAGE_DAYS: Final = 30


class UsageQuerySerializer(serializers.Serializer[Any]):
    """The period, and what its usage is summed by."""

    since = serializers.DateField(required=False, help_text="The same as `from`.")
    to = serializers.DateField(required=False, help_text="The last day; today if it is not given.")
    by = ChoiceField(
        choices=[str(by) for by in UsageBy],
        required=False,
        help_text="Without it, each day of each model has a row.",
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `from`, a keyword that cannot be an attribute."""
        first = serializers.DateField(required=False, help_text="The first day; 29 days ago if not given.")
        return {"from": first, **super().get_fields()}


class SumSerializer(serializers.Serializer[Any]):
    """Sums. ``failed`` are among the ``requests``, ``refused`` are not. ``tokens`` are those read and those
    generated; ``machine_ms`` is how long inference workers were busy."""

    requests = serializers.IntegerField()
    inputs = serializers.IntegerField()
    tokens = serializers.IntegerField()
    generated_tokens = serializers.IntegerField()
    failed = serializers.IntegerField()
    refused = serializers.IntegerField()
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
    """List infer requests by day and model, or summed by day, model or key, of 30 days by default."""

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


class RequestsQuerySerializer(serializers.Serializer[Any]):
    """Filters of the request log."""

    model = serializers.CharField(required=False, help_text="The name of a model.")
    status = ChoiceField([str(each) for each in RequestStatus], required=False)
    code = serializers.CharField(required=False, help_text="An error code, such as `rate_limited`.")
    key = serializers.CharField(
        required=False, allow_blank=True, help_text="The prefix of an API key; empty for the browser."
    )
    since = serializers.DateTimeField(required=False, help_text="A time, inclusive.")
    until = serializers.DateTimeField(required=False, help_text="A time, exclusive.")
    request_id = serializers.CharField(required=False, help_text="An `X-Request-Id`, or its beginning.")


class RequestTimingsSerializer(serializers.Serializer[Any]):
    """Milliseconds by stage, as in the answer."""

    queue = serializers.FloatField()
    retrieval = serializers.FloatField()
    adapter_load = serializers.FloatField()
    compute = serializers.FloatField()
    total = serializers.FloatField()


class LoggedRequestSerializer(serializers.ModelSerializer[LoggedRequest]):
    """An infer request. ``version`` is null if it was refused before its version was known, ``error_code`` if
    it was answered. ``param`` and ``message`` are those of its error, without values of the request;
    ``reference`` is the model as it was written. ``levels`` counts its texts by the level that answered
    them."""

    model = serializers.CharField(source="model_name")
    key = serializers.CharField(source="key_prefix", help_text="Empty for the browser.")
    outcome = ChoiceField([str(each) for each in RequestStatus])
    error_code = serializers.SerializerMethodField()
    levels = serializers.SerializerMethodField()
    timings_ms = serializers.SerializerMethodField()
    texts = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="The first 500 characters of each input; null unless the tenant keeps them.",
    )

    class Meta:
        model = LoggedRequest
        fields = (
            *("id", "at", "request_id", "api", "model", "version", "key", "status", "outcome"),
            *("error_code", "param", "message", "reference"),
            *("latency_ms", "level", "inputs", "tokens", "generated_tokens", "levels", "timings_ms", "texts"),
        )
        read_only_fields = fields

    def get_error_code(self, request: LoggedRequest) -> str | None:
        """Return the code, or None for an answered request."""
        return request.error_code or None

    def get_levels(self, request: LoggedRequest) -> dict[str, int]:
        """Return the number of texts by level."""
        levels: dict[str, int] = request.details.get("levels", {})
        return levels

    @extend_schema_field(RequestTimingsSerializer(allow_null=True))
    def get_timings_ms(self, request: LoggedRequest) -> dict[str, float] | None:
        """Return the times of an answer of an encoder, or None."""
        timings: dict[str, float] | None = request.details.get("timings_ms")
        return timings


class RequestsView(TenantView):
    """List the entries of the request log, newest first."""

    serializer_class = LoggedRequestSerializer
    queryset = LoggedRequest.unscoped.none()

    @extend_schema(parameters=[RequestsQuerySerializer], responses=LoggedRequestSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        query = validated_query(RequestsQuerySerializer, request)
        if "status" in query:
            query["status"] = RequestStatus(query["status"])
        page = self.paginate_queryset(requests_of(self.tenant, RequestFilter(**query)))
        return self.get_paginated_response(LoggedRequestSerializer(page, many=True).data)


def _period(first: date | None, last: date | None) -> tuple[date, date | None]:
    """Return the given days. Without the first, the period has 30 days."""
    if first is not None and last is not None and last < first:
        raise HmiError(ErrorCode.INVALID_FIELD, "The last day is before the first.", param="to")
    end = last or datetime.now(UTC).date()
    return first or end - timedelta(days=USAGE_DAYS), last
