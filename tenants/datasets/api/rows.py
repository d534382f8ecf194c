"""API of a dataset's rows: list, download, edit."""

from typing import Any, Final
from urllib.parse import urlencode

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.permissions import request_actor
from tenants.base.api.downloads import OCTET_STREAM, DownloadView, download_type
from tenants.base.api.inputs import ChoiceField, StrictSerializer, validated_body, validated_query
from tenants.base.csv_files import csv_file
from tenants.datasets.api.serializers import DatasetSerializer
from tenants.datasets.formats.edits import RowChange
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.splits import RowFilter, split_open, split_page, split_table
from tenants.datasets.selectors.uploads import dataset_of
from tenants.datasets.services.editing import dataset_edit

JSON_LINES: Final = "application/jsonl"
CSV: Final = "text/csv"


class RowsQuerySerializer(serializers.Serializer[Any]):
    """Which rows to list."""

    split = ChoiceField(choices=Split.choices, default=Split.TRAIN)
    label = serializers.CharField(  # type: ignore[assignment]
        required=False, default="", allow_blank=True, help_text="A class, a label, or a kind of span."
    )
    search = serializers.CharField(required=False, default="", allow_blank=True, max_length=200)
    cursor = serializers.CharField(required=False, default="", allow_blank=True, max_length=40)
    limit = serializers.IntegerField(required=False, default=50, min_value=1, max_value=500)


class RowSerializer(serializers.Serializer[Any]):
    """A row, counted from 1."""

    row = serializers.IntegerField()
    fields = serializers.JSONField()  # type: ignore[assignment]


class RowsSerializer(serializers.Serializer[Any]):
    """A page of rows. ``next`` leads to the next page, which may exist even if this one is empty.
    ``previous`` is null: rows are read forwards."""

    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
    results = RowSerializer(many=True)


class DownloadQuerySerializer(serializers.Serializer[Any]):
    """The form of a download."""

    type = ChoiceField(choices=[("csv", "CSV"), ("jsonl", "JSON lines")], default="jsonl")


class RowChangeSerializer(StrictSerializer):
    """A change of a row of a split. Without ``row``, ``fields`` are a new row; without ``fields``, the row is
    left out."""

    split = ChoiceField(choices=Split.choices, default=Split.TRAIN)
    row = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=1)
    fields = serializers.DictField(required=False, allow_null=True, default=None)  # type: ignore[assignment]


class DatasetEditSerializer(StrictSerializer):
    """Changes of rows, and the name of the new dataset."""

    name = serializers.CharField(
        max_length=100,
        required=False,
        default="",
        allow_blank=True,
        help_text="The next free one, such as tickets-2, if empty.",
    )
    changes = RowChangeSerializer(many=True, allow_empty=False)


class DatasetRowsView(TenantView):
    """List the rows of a dataset."""

    queryset = Dataset.unscoped.none()
    pagination_class = None  # type: ignore[assignment]

    @extend_schema(parameters=[RowsQuerySerializer], responses=RowsSerializer)
    def get(self, request: Request, *, dataset_id: int, **_: Any) -> Response:
        dataset, query = dataset_of(self.tenant, dataset_id), validated_query(RowsQuerySerializer, request)
        wanted = RowFilter(words=query["search"], label=query["label"])
        page = split_page(
            dataset, split=query["split"], wanted=wanted, cursor=query["cursor"], limit=query["limit"]
        )
        following = None
        if page.cursor:
            asked = {**request.query_params.dict(), "cursor": page.cursor}
            following = f"{request.build_absolute_uri(request.path)}?{urlencode(asked)}"
        rows = [{"row": one.row, "fields": one.fields} for one in page.rows]
        return Response({"next": following, "previous": None, "results": rows})


class DatasetSplitView(DownloadView, TenantView):
    """Download a split of a dataset."""

    queryset = Dataset.unscoped.none()

    @extend_schema(
        parameters=[DownloadQuerySerializer],
        responses={(200, JSON_LINES, CSV, OCTET_STREAM): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, *, dataset_id: int, split: str, **_: Any) -> FileResponse:
        dataset = dataset_of(self.tenant, dataset_id)
        kind = validated_query(DownloadQuerySerializer, request)["type"]
        file, media_type = split_open(dataset, split), JSON_LINES
        if kind == "csv":
            media_type = CSV
            with file:
                columns, rows = split_table(file)
                file = csv_file(columns, rows, kept=len(columns))
        return FileResponse(
            file,
            as_attachment=True,
            filename=f"{dataset.name}-{split}.{kind}",
            content_type=download_type(request, media_type),
        )


class DatasetEditsView(TenantView):
    """Change, add and leave out rows of a dataset. The result is a new dataset."""

    serializer_class = DatasetSerializer
    queryset = Dataset.unscoped.none()

    @extend_schema(request=DatasetEditSerializer, responses={201: DatasetSerializer})
    def post(self, request: Request, *, dataset_id: int, **_: Any) -> Response:
        given = dataset_of(self.tenant, dataset_id)
        data = validated_body(DatasetEditSerializer, request)
        dataset = dataset_edit(
            dataset=given,
            changes=[RowChange(**one) for one in data["changes"]],
            name=data["name"],
            actor=request_actor(request),
        )
        return Response(DatasetSerializer(dataset).data, status=status.HTTP_201_CREATED)
