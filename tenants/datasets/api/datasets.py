"""Datasets: upload, preview, list, delete."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.permissions import request_actor
from tenants.base.api.conditional import ConditionalView
from tenants.base.api.inputs import SearchQuerySerializer, UploadFormParser
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from tenants.datasets.api.serializers import (
    DatasetFilesSerializer,
    DatasetSerializer,
    DatasetUploadSerializer,
    PreviewSerializer,
)
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.previews import search_by_name
from tenants.datasets.selectors.uploads import dataset_of, datasets_of
from tenants.datasets.services.datasets import dataset_delete, dataset_preview, dataset_upload


def _content(asked: dict[str, Any]) -> dict[str, Any]:
    files = {
        split: (asked[split].name, asked[split]) for split in Split.values if asked.get(split) is not None
    }
    return {
        "task": asked["task"],
        "files": files,
        "columns": asked.get("columns"),
        "separator": asked["separator"],
        "allow_leaks": asked["allow_leaks"],
    }


class DatasetsView(TenantView):
    """The tenant's datasets."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = DatasetSerializer
    queryset = Dataset.unscoped.none()

    @extend_schema(parameters=[SearchQuerySerializer], responses=DatasetSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        query = SearchQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        page = self.paginate_queryset(
            search_by_name(datasets_of(self.tenant), words=query.validated_data["words"])
        )
        return self.get_paginated_response(DatasetSerializer(page, many=True).data)

    @extend_schema(request=DatasetUploadSerializer, responses={201: DatasetSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        asked = DatasetUploadSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        dataset = dataset_upload(
            tenant=self.tenant,
            name=asked.validated_data["name"],
            actor=request_actor(request),
            **_content(asked.validated_data),
        )
        return Response(DatasetSerializer(dataset).data, status=status.HTTP_201_CREATED)


class DatasetPreviewView(TenantView):
    """What an upload would say. Nothing is stored."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = [UploadFormParser]
    serializer_class = PreviewSerializer
    takes_idempotency_key = False

    @extend_schema(request=DatasetFilesSerializer, responses=PreviewSerializer)
    def post(self, request: Request, **_: Any) -> Response:
        asked = DatasetFilesSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        return Response(dataset_preview(**_content(asked.validated_data)))


class DatasetView(ConditionalView, TenantView):
    """One dataset."""

    serializer_class = DatasetSerializer
    queryset = Dataset.unscoped.none()

    def find_object(self, *, dataset_id: int, **_: Any) -> Dataset:
        return dataset_of(self.tenant, dataset_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **place: Any) -> Response:
        dataset_delete(dataset=self.find_object(**place), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
