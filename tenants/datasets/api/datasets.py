"""API of datasets: upload, preview, list, delete."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import SearchQuerySerializer, UploadFormParser, validated_body, validated_query
from tenants.base.api.object_view import ObjectView
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from tenants.datasets.api.serializers import (
    DatasetCorrectSerializer,
    DatasetFilesSerializer,
    DatasetSerializer,
    DatasetUploadSerializer,
    PreviewSerializer,
)
from tenants.datasets.formats.corrections import Correction
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.previews import search_by_name
from tenants.datasets.selectors.uploads import dataset_of, datasets_of
from tenants.datasets.services.corrections import dataset_correct
from tenants.datasets.services.datasets import dataset_delete, dataset_preview, dataset_upload


def _files_and_options(data: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that ``dataset_upload`` and ``dataset_preview`` share."""
    uploaded = {split: data[split] for split in Split.values if data.get(split) is not None}
    return {
        "task": data["task"],
        "files": {split: (file.name, file) for split, file in uploaded.items()},
        "columns": data.get("columns"),
        "separator": data["separator"],
        "allow_leaks": data["allow_leaks"],
        "skip_invalid_rows": data["skip_invalid_rows"],
    }


class DatasetsView(TenantView):
    """The tenant's datasets."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = DatasetSerializer
    queryset = Dataset.unscoped.none()

    @extend_schema(parameters=[SearchQuerySerializer], responses=DatasetSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the tenant's datasets."""
        query = validated_query(SearchQuerySerializer, request)
        page = self.paginate_queryset(search_by_name(datasets_of(self.tenant), words=query["words"]))
        return self.get_paginated_response(DatasetSerializer(page, many=True).data)

    @extend_schema(request=DatasetUploadSerializer, responses={201: DatasetSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Upload a dataset."""
        data = validated_body(DatasetUploadSerializer, request)
        dataset = dataset_upload(
            tenant=self.tenant,
            name=data["name"],
            actor=request_actor(request),
            **_files_and_options(data),
        )
        return Response(DatasetSerializer(dataset).data, status=status.HTTP_201_CREATED)


class DatasetPreviewView(TenantView):
    """Validate a dataset without storing it."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = PreviewSerializer
    takes_idempotency_key = False

    @extend_schema(request=DatasetFilesSerializer, responses=PreviewSerializer)
    def post(self, request: Request, **_: Any) -> Response:
        data = validated_body(DatasetFilesSerializer, request)
        return Response(dataset_preview(**_files_and_options(data)))


class DatasetView(ObjectView, TenantView):
    """Get a dataset."""

    serializer_class = DatasetSerializer
    queryset = Dataset.unscoped.none()

    def find_object(self, *, dataset_id: int, **_: Any) -> Dataset:
        return dataset_of(self.tenant, dataset_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Delete a dataset that nothing uses."""
        dataset_delete(dataset=self.find_object(**kwargs), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class DatasetCorrectionsView(TenantView):
    """Correct labels of a dataset, or leave out rows. The result is a new dataset."""

    serializer_class = DatasetSerializer
    queryset = Dataset.unscoped.none()

    @extend_schema(request=DatasetCorrectSerializer, responses={201: DatasetSerializer})
    def post(self, request: Request, *, dataset_id: int, **_: Any) -> Response:
        given = dataset_of(self.tenant, dataset_id)
        data = validated_body(DatasetCorrectSerializer, request)
        dataset = dataset_correct(
            dataset=given,
            name=data["name"],
            corrections=[Correction(**one) for one in data["corrections"]],
            actor=request_actor(request),
        )
        return Response(DatasetSerializer(dataset).data, status=status.HTTP_201_CREATED)
