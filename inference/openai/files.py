"""`/v1/files`: sent whole, fetched, listed, deleted."""

from typing import Any

from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from inference.openai.errors import OpenAiView, errors
from inference.openai.lists import FILE, ListQuerySerializer, list_of, listed, read_id, written_id
from inference.openai.serializers import (
    DeletedSerializer,
    FileUploadSerializer,
    OpenAiFileSerializer,
    life_of,
    shown_file,
)
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import UploadFormParser
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from tenants.datasets.models import File, FilePurpose
from tenants.datasets.selectors.files import file_of, files_of
from tenants.datasets.services.files import file_create, file_delete
from tenants.datasets.storage import stored_path

MAX_CONCURRENT = 10_000


class OpenAiFilesView(OpenAiView):
    """The tenant's files."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = (UploadFormParser,)
    serializer_class = OpenAiFileSerializer
    queryset = File.unscoped.none()

    @extend_schema(
        operation_id="openai_files_list",
        parameters=[ListQuerySerializer, OpenApiParameter("purpose", enum=FilePurpose.values)],
        responses={200: list_of(OpenAiFileSerializer, "OpenAiFiles"), **errors(400)},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List files."""
        rows = files_of(self.tenant)
        if (purpose := request.query_params.get("purpose")) is not None:
            rows = rows.filter(purpose=_known(purpose))
        read = lambda given: read_id(FILE, given, param="after")  # noqa: E731
        shown = listed(rows, request, shown_file, read=read, most=MAX_CONCURRENT, default=MAX_CONCURRENT)
        return Response(shown)

    @extend_schema(
        operation_id="openai_files_create",
        request={"multipart/form-data": FileUploadSerializer},
        responses={200: OpenAiFileSerializer, **errors(400, 408, 409, 413)},
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Keep a file."""
        form = FileUploadSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        asked = form.validated_data
        file = file_create(
            tenant=self.tenant,
            purpose=asked["purpose"],
            filename=asked["file"].name,
            stream=asked["file"],
            actor=request_actor(request),
            expires_after=life_of(asked),
        )
        return Response(shown_file(file))


class OpenAiFileView(OpenAiView):
    """One file."""

    serializer_class = OpenAiFileSerializer
    queryset = File.unscoped.none()

    @extend_schema(operation_id="openai_files_retrieve", responses={200: OpenAiFileSerializer, **errors()})
    def get(self, request: Request, file_id: str, **_: Any) -> Response:
        """About a file."""
        return Response(shown_file(_file(self, file_id)))

    @extend_schema(operation_id="openai_files_delete", responses={200: DeletedSerializer, **errors(409)})
    def delete(self, request: Request, file_id: str, **_: Any) -> Response:
        """Delete a file."""
        file = _file(self, file_id)
        gone = written_id(FILE, file.pk)
        file_delete(file=file, actor=request_actor(request))
        return Response({"id": gone, "object": "file", "deleted": True})


class OpenAiFileContentView(OpenAiView):
    """The bytes of a file."""

    serializer_class = OpenAiFileSerializer
    queryset = File.unscoped.none()

    @extend_schema(
        operation_id="openai_files_content",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY, **errors()},
    )
    def get(self, request: Request, file_id: str, **_: Any) -> FileResponse:
        """Fetch a file."""
        file = _file(self, file_id)
        try:
            stream = stored_path(file.sha256).open("rb")
        except FileNotFoundError as error:
            message = "The file is missing on this server; an administrator must look."
            raise HmiError(ErrorCode.CORRUPT_ARTIFACT, message) from error
        return FileResponse(
            stream, as_attachment=True, filename=file.filename, content_type="application/octet-stream"
        )


def _file(view: OpenAiView, given: str) -> File:
    return file_of(view.tenant, read_id(FILE, given, param="file_id"))


def _known(purpose: str) -> FilePurpose:
    try:
        return FilePurpose(purpose)
    except ValueError:
        message = f"A purpose is one of {', '.join(FilePurpose.values)}."
        raise HmiError(ErrorCode.INVALID_FIELD, message, param="purpose") from None
