"""`/v1/batches`: a request a line, answered when nothing else waits."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inference.batches.models import ENDPOINTS, Batch, BatchFormat, BatchState
from inference.batches.selectors import batch_of, batches_of
from inference.batches.services.batches import batch_cancel, batch_create
from inference.openai.errors import OpenAiView, errors
from inference.openai.lists import (
    BATCH,
    FILE,
    ListQuerySerializer,
    list_of,
    listed,
    read_id,
    unix,
    written_id,
)
from inference.openai.serializers import MetadataField
from tenants.accounts.models import Scope
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import StrictSerializer
from tenants.base.api.inputs import validated_body as body_of
from tenants.datasets.models import File
from tenants.datasets.selectors.files import file_of

WINDOW = "24h"
EXAMPLE = {
    "input_file_id": "file-7bd7a7a4ab6c4d7f9a9f6fd4f9d6f2c1",
    "endpoint": ENDPOINTS[0],
    "completion_window": WINDOW,
}


class BatchRequestSerializer(StrictSerializer):
    """A file of requests, all to one address and for one model."""

    input_file_id = serializers.CharField(help_text="Of a file that was sent with the purpose `batch`.")
    endpoint = serializers.ChoiceField(ENDPOINTS)
    completion_window = serializers.ChoiceField([WINDOW])
    metadata = MetadataField()

    class Meta:
        ref_name = "OpenAiBatchAsked"


class BatchCountsSerializer(serializers.Serializer[Any]):
    """How many of the requests are done."""

    total = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField()


class OpenAiBatchSerializer(serializers.Serializer[Any]):
    """A batch."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`batch`.")
    endpoint = serializers.CharField()
    model = serializers.CharField(allow_null=True)
    input_file_id = serializers.CharField(allow_null=True)
    completion_window = serializers.CharField()
    status = serializers.CharField()
    output_file_id = serializers.CharField(allow_null=True)
    error_file_id = serializers.CharField(allow_null=True)
    created_at = serializers.IntegerField()
    in_progress_at = serializers.IntegerField(allow_null=True)
    expires_at = serializers.IntegerField()
    finalizing_at = serializers.IntegerField(allow_null=True)
    completed_at = serializers.IntegerField(allow_null=True)
    failed_at = serializers.IntegerField(allow_null=True)
    expired_at = serializers.IntegerField(allow_null=True)
    cancelling_at = serializers.IntegerField(allow_null=True)
    cancelled_at = serializers.IntegerField(allow_null=True)
    request_counts = BatchCountsSerializer()
    metadata = serializers.DictField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        """With one whose name is taken here."""
        return super().get_fields() | {"errors": serializers.DictField(allow_null=True)}


class OpenAiBatchView(OpenAiView):
    """A key needs the scope `infer`: a batch asks a model."""

    serializer_class = OpenAiBatchSerializer
    queryset = Batch.unscoped.none()
    scope = Scope.INFER

    def batch(self, given: str) -> Batch:
        """The batch with this id, or ``not_found``."""
        return batch_of(self.tenant, read_id(BATCH, given, param="batch_id"))


class OpenAiBatchesView(OpenAiBatchView):
    """The tenant's batches of requests."""

    @extend_schema(
        operation_id="openai_batches_list",
        parameters=[ListQuerySerializer],
        responses={200: list_of(OpenAiBatchSerializer, "OpenAiBatches"), **errors(400)},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List batches."""
        rows = batches_of(self.tenant).filter(form=BatchFormat.REQUESTS)
        read = lambda given: read_id(BATCH, given, param="after")  # noqa: E731
        return Response(listed(rows, request, shown_batch, read=read))

    @extend_schema(
        operation_id="openai_batches_create",
        request=BatchRequestSerializer,
        responses={200: OpenAiBatchSerializer, **errors(400, 408, 409, 413)},
        examples=[OpenApiExample("Requests to a model", EXAMPLE, request_only=True)],
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Begin a batch."""
        asked = body_of(BatchRequestSerializer, request)
        file_id = read_id(FILE, asked["input_file_id"], param="input_file_id")
        batch = batch_create(
            tenant=self.tenant,
            file=file_of(self.tenant, file_id, param="input_file_id"),
            line_format=BatchFormat.REQUESTS,
            endpoint=asked["endpoint"],
            metadata=asked.get("metadata"),
            actor=request_actor(request),
        )
        return Response(shown_batch(batch))


class OpenAiBatchDetailView(OpenAiBatchView):
    """One batch."""

    @extend_schema(operation_id="openai_batches_retrieve", responses={200: OpenAiBatchSerializer, **errors()})
    def get(self, request: Request, batch_key: str, **_: Any) -> Response:
        """Where a batch stands."""
        return Response(shown_batch(self.batch(batch_key)))


class OpenAiBatchCancelView(OpenAiBatchView):
    """Stop one."""

    @extend_schema(
        operation_id="openai_batches_cancel",
        request=None,
        responses={200: OpenAiBatchSerializer, **errors(409)},
    )
    def post(self, request: Request, batch_key: str, **_: Any) -> Response:
        """Cancel a batch; what is answered by then can be fetched."""
        batch = self.batch(batch_key)
        return Response(shown_batch(batch_cancel(batch=batch, actor=request_actor(request))))


def shown_batch(batch: Batch) -> dict[str, Any]:
    """A batch as JSON."""
    ended, status = unix(batch.finished_at), _status(batch)
    problem = {"code": batch.error_code, "message": batch.error_message, "param": None, "line": None}
    return {
        "id": written_id(BATCH, batch.pk),
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model or None,
        "errors": {"object": "list", "data": [problem]} if batch.error_code else None,
        "input_file_id": _file(batch.input),
        "completion_window": WINDOW,
        "status": status,
        "output_file_id": _file(batch.results),
        "error_file_id": _file(batch.errors),
        "created_at": unix(batch.created_at),
        "in_progress_at": unix(batch.started_at),
        "expires_at": unix(batch.expires_at),
        "finalizing_at": ended if batch.state == BatchState.COMPLETED else None,
        **{f"{word}_at": ended if status == word else None for word in ("completed", "failed", "expired")},
        "cancelling_at": ended if batch.state == BatchState.CANCELLED else None,
        "cancelled_at": ended if status == "cancelled" else None,
        "request_counts": {
            "total": batch.total_lines or 0,
            "completed": batch.succeeded,
            "failed": batch.failed,
        },
        "metadata": batch.metadata or None,
    }


def _status(batch: Batch) -> str:
    """Their word for its state."""
    if batch.is_active:
        return "validating" if batch.total_lines is None else "in_progress"
    if batch.files_ready:
        return batch.state
    return "cancelling" if batch.state == BatchState.CANCELLED else "finalizing"


def _file(file: File | None) -> str | None:
    return None if file is None else written_id(FILE, file.pk)
