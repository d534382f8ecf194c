"""`/v1/files`: list, upload, fetch and delete files."""

from typing import Any

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from inference.openai.errors import OpenAiView, error_responses
from inference.openai.file_list import PURPOSES, file_list
from inference.openai.ids import FILE, format_id, parse_id
from inference.openai.pagination import ListQuerySerializer, list_query, list_schema
from inference.openai.serializers import (
    DeletedSerializer,
    FileUploadSerializer,
    OpenAiFileSerializer,
    file_json,
    lifetime_of,
)
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import UploadFormParser
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from tenants.datasets.models import File
from tenants.datasets.selectors.files import file_of
from tenants.datasets.services.files import file_create, file_delete
from tenants.datasets.storage import stored_open

MAX_FILES_LIMIT = 10_000
"""The list of files has this many rows by default and at most, as OpenAI's has."""


class OpenAiFilesView(OpenAiView):
    """The tenant's files."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = (UploadFormParser,)
    serializer_class = OpenAiFileSerializer
    queryset = File.unscoped.none()

    @extend_schema(
        operation_id="openai_files_list",
        parameters=[ListQuerySerializer, OpenApiParameter("purpose", enum=PURPOSES)],
        responses={200: list_schema(OpenAiFileSerializer, "OpenAiFiles"), **error_responses(400)},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List files."""
        query = list_query(request, max_limit=MAX_FILES_LIMIT, default_limit=MAX_FILES_LIMIT)
        page = file_list(
            self.tenant,
            purpose=_parse_purpose(request.query_params.get("purpose")),
            after=query.get("after"),
            limit=query["limit"],
            descending=query["order"] == "desc",
        )
        return Response(page)

    @extend_schema(
        operation_id="openai_files_create",
        request={"multipart/form-data": FileUploadSerializer},
        responses={200: OpenAiFileSerializer, **error_responses(400, 408, 409, 413)},
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Upload a file."""
        form = FileUploadSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        file = file_create(
            tenant=self.tenant,
            purpose=data["purpose"],
            filename=data["file"].name,
            stream=data["file"],
            actor=request_actor(request),
            expires_after=lifetime_of(data),
        )
        return Response(file_json(file))


class OpenAiFileView(OpenAiView):
    """One file."""

    serializer_class = OpenAiFileSerializer
    queryset = File.unscoped.none()

    @extend_schema(
        operation_id="openai_files_retrieve", responses={200: OpenAiFileSerializer, **error_responses()}
    )
    def get(self, request: Request, file_id: str, **_: Any) -> Response:
        """Get a file's metadata."""
        return Response(file_json(_file(self, file_id)))

    @extend_schema(
        operation_id="openai_files_delete", responses={200: DeletedSerializer, **error_responses(409)}
    )
    def delete(self, request: Request, file_id: str, **_: Any) -> Response:
        """Delete a file."""
        file = _file(self, file_id)
        deleted_id = format_id(FILE, file.pk)
        file_delete(file=file, actor=request_actor(request))
        return Response({"id": deleted_id, "object": "file", "deleted": True})


class OpenAiFileContentView(OpenAiView):
    """The bytes of a file."""

    serializer_class = OpenAiFileSerializer
    queryset = File.unscoped.none()

    @extend_schema(
        operation_id="openai_files_content",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY, **error_responses()},
    )
    def get(self, request: Request, file_id: str, **_: Any) -> FileResponse:
        """Get a file's content."""
        file = _file(self, file_id)
        return FileResponse(
            stored_open(file.sha256),
            as_attachment=True,
            filename=file.filename,
            content_type="application/octet-stream",
        )


def _file(view: OpenAiView, file_id: str) -> File:
    return file_of(view.tenant, parse_id(FILE, file_id, param="file_id"))


def _parse_purpose(purpose: str | None) -> str | None:
    if purpose is None or purpose in PURPOSES:
        return purpose
    message = f"A purpose is one of {', '.join(PURPOSES)}."
    raise HmiError(ErrorCode.INVALID_FIELD, message, param="purpose")
