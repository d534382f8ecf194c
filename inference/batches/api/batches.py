"""The API of batches: files of inputs that a model answers with low priority."""

from functools import partial
from typing import Any, Final
from uuid import UUID

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from inference.batches.api.serializers import BatchCreateSerializer, BatchesQuerySerializer, BatchSerializer
from inference.batches.models import Batch
from inference.batches.selectors import batch_file_open, batch_of, batches_of
from inference.batches.services.batches import batch_cancel, batch_delete, batch_submit
from tenants.accounts.api.access import TenantView
from tenants.accounts.models import Scope
from tenants.accounts.permissions import request_actor
from tenants.base.api.downloads import OCTET_STREAM, DownloadView, download_type
from tenants.base.api.inputs import validated_body, validated_query
from tenants.base.api.object_view import ObjectView
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from tenants.datasets.selectors.uploads import upload_of

JSON_LINES: Final = "application/jsonl"
CSV: Final = "text/csv"


class BatchTenantView(TenantView):
    """Views of batches. A key needs the scope ``infer``."""

    serializer_class = BatchSerializer
    queryset = Batch.unscoped.none()
    scope = Scope.INFER


class BatchesView(BatchTenantView):
    """The tenant's batches."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    ordering = ("-created_at", "-pk")

    @extend_schema(parameters=[BatchesQuerySerializer], responses=BatchSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the tenant's batches, newest first."""
        rows = batches_of(self.tenant).filter(**validated_query(BatchesQuerySerializer, request))
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(BatchSerializer(page, many=True).data)

    @extend_schema(
        request={"multipart/form-data": BatchCreateSerializer, "application/json": BatchCreateSerializer},
        responses={201: BatchSerializer},
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Create a batch: a model answers the lines of a file."""
        body, actor = validated_body(BatchCreateSerializer, request), request_actor(request)
        submit = partial(
            batch_submit,
            tenant=self.tenant,
            model=body["model"],
            columns=body.get("columns"),
            actor=actor,
        )
        if (upload_id := body.get("upload")) is not None:
            upload = upload_of(self.tenant, actor, upload_id)
            batch = submit(filename=upload.filename, stream=upload)
        else:
            batch = submit(filename=body["file"].name, stream=body["file"])
        return Response(BatchSerializer(batch).data, status=status.HTTP_201_CREATED)


class BatchView(ObjectView, BatchTenantView):
    """Get a batch and its progress."""

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        deletes = self.request is not None and self.request.method == "DELETE"
        return Scope.MANAGE if deletes else Scope.INFER

    def find_object(self, *, batch_id: UUID, **_: Any) -> Batch:
        return batch_of(self.tenant, batch_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, batch_id: UUID, **_: Any) -> Response:
        """Delete a batch that has ended, with its files.

        A key needs the scope ``manage``. 409 before the batch has ended: cancel it first.
        """
        batch_delete(batch=batch_of(self.tenant, batch_id), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class BatchCancelView(BatchTenantView):
    """Cancel a batch. Results so far are kept."""

    @extend_schema(request=None, responses=BatchSerializer)
    def post(self, request: Request, batch_id: UUID, **_: Any) -> Response:
        batch = batch_cancel(batch=batch_of(self.tenant, batch_id), actor=request_actor(request))
        return Response(BatchSerializer(batch).data)


class _BatchFile(DownloadView, BatchTenantView):
    kind: str

    @extend_schema(responses={(200, JSON_LINES, CSV, OCTET_STREAM): OpenApiTypes.BINARY})
    def get(self, request: Request, batch_id: UUID, **_: Any) -> FileResponse:
        stream, filename = batch_file_open(batch_of(self.tenant, batch_id), self.kind)
        kind = download_type(request, CSV if filename.endswith(".csv") else JSON_LINES)
        return FileResponse(stream, as_attachment=True, filename=filename, content_type=kind)


class BatchResultsView(_BatchFile):
    """Get the results of a batch that has ended, one per line; of a table, as CSV."""

    kind = "results"


class BatchErrorsView(_BatchFile):
    """Get the failed lines of a batch that has ended, with their errors."""

    kind = "errors"
