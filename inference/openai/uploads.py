"""`/v1/uploads`: uploads in parts, which may be sent in parallel."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from inference.openai.errors import OpenAiView, error_responses
from inference.openai.ids import PART, UPLOAD, format_id, parse_id, unix_time
from inference.openai.serializers import (
    OpenAiUploadPartSerializer,
    OpenAiUploadSerializer,
    UploadCompleteSerializer,
    UploadPartSerializer,
    UploadRequestSerializer,
    upload_json,
)
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import UploadFormParser
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT
from tenants.datasets.models import MultipartUpload
from tenants.datasets.selectors.files import multipart_upload_of
from tenants.datasets.services.multipart_uploads import (
    multipart_upload_cancel,
    multipart_upload_complete,
    multipart_upload_create,
    part_create,
)


class _UploadView(OpenAiView):
    serializer_class: type[Serializer[Any]] = OpenAiUploadSerializer
    queryset = MultipartUpload.unscoped.none()

    def upload(self, upload_id: str) -> MultipartUpload:
        """The upload with this id, or ``not_found``."""
        return multipart_upload_of(self.tenant, parse_id(UPLOAD, upload_id, param="upload_id"))


class OpenAiUploadsView(_UploadView):
    """Create an upload."""

    @extend_schema(
        operation_id="openai_uploads_create",
        request=UploadRequestSerializer,
        responses={200: OpenAiUploadSerializer, **error_responses(400, 408, 409, 413)},
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Create an upload of a file in parts."""
        body = UploadRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        data = body.validated_data
        after = data.get("expires_after")
        multipart_upload = multipart_upload_create(
            tenant=self.tenant,
            purpose=data["purpose"],
            filename=data["filename"],
            size=data["bytes"],
            actor=request_actor(request),
            expires_after=timedelta(seconds=after["seconds"]) if after else None,
        )
        return Response(upload_json(multipart_upload))


class OpenAiPartsView(_UploadView):
    """Add parts to an upload."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = (UploadFormParser,)
    serializer_class = OpenAiUploadPartSerializer

    @extend_schema(
        operation_id="openai_uploads_parts_create",
        request={"multipart/form-data": UploadPartSerializer},
        responses={200: OpenAiUploadPartSerializer, **error_responses(400, 408, 409, 413)},
    )
    def post(self, request: Request, openai_upload_id: str, **_: Any) -> Response:
        """Add a part to an upload."""
        multipart_upload = self.upload(openai_upload_id)
        form = UploadPartSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data["data"]
        part = part_create(
            multipart_upload=multipart_upload, stream=data, size=data.size, actor=request_actor(request)
        )
        return Response(
            {
                "id": format_id(PART, part.pk),
                "object": "upload.part",
                "created_at": unix_time(part.created_at),
                "upload_id": format_id(UPLOAD, multipart_upload.pk),
            }
        )


class OpenAiUploadCompleteView(_UploadView):
    """Complete an upload."""

    @extend_schema(
        operation_id="openai_uploads_complete",
        request=UploadCompleteSerializer,
        responses={200: OpenAiUploadSerializer, **error_responses(400, 408, 409, 413)},
    )
    def post(self, request: Request, openai_upload_id: str, **_: Any) -> Response:
        """Complete an upload: create a file from its parts."""
        multipart_upload = self.upload(openai_upload_id)
        body = UploadCompleteSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        data = body.validated_data
        multipart_upload_complete(
            multipart_upload=multipart_upload,
            part_ids=[parse_id(PART, part, param="part_ids") for part in data["part_ids"]],
            actor=request_actor(request),
            md5=data.get("md5") or "",
        )
        return Response(upload_json(self.upload(openai_upload_id)))


class OpenAiUploadCancelView(_UploadView):
    """Cancel an upload."""

    @extend_schema(
        operation_id="openai_uploads_cancel",
        request=None,
        responses={200: OpenAiUploadSerializer, **error_responses(400, 408, 409, 413)},
    )
    def post(self, request: Request, openai_upload_id: str, **_: Any) -> Response:
        """Cancel an upload and delete its parts."""
        multipart_upload_cancel(multipart_upload=self.upload(openai_upload_id))
        return Response(upload_json(self.upload(openai_upload_id)))
