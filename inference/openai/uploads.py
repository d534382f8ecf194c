"""`/v1/uploads`: files that come in parts, several at a time if one likes."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from inference.openai.errors import OpenAiView, errors
from inference.openai.lists import PART, UPLOAD, read_id, unix, written_id
from inference.openai.serializers import (
    CompletedSerializer,
    OpenAiPartSerializer,
    OpenAiUploadSerializer,
    ShownPartSerializer,
    UploadRequestSerializer,
    shown_upload,
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

    def upload(self, given: str) -> MultipartUpload:
        """The file in parts with this id, or ``not_found``."""
        return multipart_upload_of(self.tenant, read_id(UPLOAD, given, param="upload_id"))


class OpenAiUploadsView(_UploadView):
    """Files in parts."""

    @extend_schema(
        operation_id="openai_uploads_create",
        request=UploadRequestSerializer,
        responses={200: OpenAiUploadSerializer, **errors(400, 408, 409, 413)},
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Announce a file."""
        body = UploadRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        after = asked.get("expires_after")
        multipart_upload = multipart_upload_create(
            tenant=self.tenant,
            purpose=asked["purpose"],
            filename=asked["filename"],
            size=asked["bytes"],
            actor=request_actor(request),
            expires_after=timedelta(seconds=after["seconds"]) if after else None,
        )
        return Response(shown_upload(multipart_upload))


class OpenAiPartsView(_UploadView):
    """The parts of one."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    parser_classes = (UploadFormParser,)
    serializer_class = ShownPartSerializer

    @extend_schema(
        operation_id="openai_uploads_parts_create",
        request={"multipart/form-data": OpenAiPartSerializer},
        responses={200: ShownPartSerializer, **errors(400, 408, 409, 413)},
    )
    def post(self, request: Request, openai_upload_id: str, **_: Any) -> Response:
        """Add a part."""
        multipart_upload = self.upload(openai_upload_id)
        form = OpenAiPartSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data["data"]
        part = part_create(
            multipart_upload=multipart_upload, stream=data, size=data.size, actor=request_actor(request)
        )
        return Response(
            {
                "id": written_id(PART, part.pk),
                "object": "upload.part",
                "created_at": unix(part.created_at),
                "upload_id": written_id(UPLOAD, multipart_upload.pk),
            }
        )


class OpenAiUploadCompleteView(_UploadView):
    """The end of one."""

    @extend_schema(
        operation_id="openai_uploads_complete",
        request=CompletedSerializer,
        responses={200: OpenAiUploadSerializer, **errors(400, 408, 409, 413)},
    )
    def post(self, request: Request, openai_upload_id: str, **_: Any) -> Response:
        """Make a file of the parts."""
        multipart_upload = self.upload(openai_upload_id)
        body = CompletedSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        multipart_upload_complete(
            multipart_upload=multipart_upload,
            part_ids=[read_id(PART, part, param="part_ids") for part in asked["part_ids"]],
            actor=request_actor(request),
            md5=asked.get("md5") or "",
        )
        return Response(shown_upload(self.upload(openai_upload_id)))


class OpenAiUploadCancelView(_UploadView):
    """The other end of one."""

    @extend_schema(
        operation_id="openai_uploads_cancel",
        request=None,
        responses={200: OpenAiUploadSerializer, **errors(400, 408, 409, 413)},
    )
    def post(self, request: Request, openai_upload_id: str, **_: Any) -> Response:
        """Throw the parts away."""
        multipart_upload_cancel(multipart_upload=self.upload(openai_upload_id))
        return Response(shown_upload(self.upload(openai_upload_id)))
