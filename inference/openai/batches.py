"""`/v1/batches`: files of requests, one a line, that are answered in the background."""

from functools import partial
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inference.batches.models import ENDPOINTS, Batch, BatchFormat, BatchState
from inference.batches.selectors import batch_of, batches_of
from inference.batches.services.batches import batch_cancel, batch_create_of_requests
from inference.openai.errors import OpenAiView, error_responses, openai_code
from inference.openai.ids import BATCH, FILE, format_id, parse_id, unix_time
from inference.openai.pagination import ListQuerySerializer, list_schema, paginated_list
from inference.openai.serializers import MetadataField
from tenants.accounts.models import Scope
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import ChoiceField, StrictSerializer, validated_body
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File
from tenants.datasets.selectors.files import file_of

COMPLETION_WINDOW = "24h"
EXAMPLE = {
    "input_file_id": "file-7bd7a7a4ab6c4d7f9a9f6fd4f9d6f2c1",
    "endpoint": ENDPOINTS[0],
    "completion_window": COMPLETION_WINDOW,
}


class OpenAiBatchRequestSerializer(StrictSerializer):
    """A file of requests, all for one endpoint and one model."""

    input_file_id = serializers.CharField(help_text="A file with the purpose `batch`.")
    endpoint = ChoiceField(ENDPOINTS)
    completion_window = ChoiceField([COMPLETION_WINDOW])
    metadata = MetadataField()


class OpenAiBatchCountsSerializer(serializers.Serializer[Any]):
    """How many requests the batch has, and how many are done."""

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
    request_counts = OpenAiBatchCountsSerializer()
    metadata = serializers.DictField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        """Add the field ``errors``, whose name is a property of a serializer."""
        return super().get_fields() | {"errors": serializers.DictField(allow_null=True)}


class OpenAiBatchView(OpenAiView):
    """Base of the views of batches. A key needs the scope ``infer``."""

    serializer_class = OpenAiBatchSerializer
    queryset = Batch.unscoped.none()
    scope = Scope.INFER

    def batch(self, batch_key: str) -> Batch:
        """The batch with this id, or ``not_found``."""
        return batch_of(self.tenant, parse_id(BATCH, batch_key, param="batch_id"))


class OpenAiBatchesView(OpenAiBatchView):
    """The tenant's batches of requests, newest first."""

    @extend_schema(
        operation_id="openai_batches_list",
        parameters=[ListQuerySerializer],
        responses={200: list_schema(OpenAiBatchSerializer, "OpenAiBatches"), **error_responses(400)},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List batches."""
        rows = batches_of(self.tenant).filter(line_format=BatchFormat.REQUESTS)
        after = partial(parse_id, BATCH, param="after")
        return Response(paginated_list(rows, request, batch_json, parse_id=after))

    @extend_schema(
        operation_id="openai_batches_create",
        request=OpenAiBatchRequestSerializer,
        responses={200: OpenAiBatchSerializer, **error_responses(400, 408, 409, 413)},
        examples=[OpenApiExample("Requests to a model", EXAMPLE, request_only=True)],
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Create a batch."""
        data = validated_body(OpenAiBatchRequestSerializer, request)
        file_id = parse_id(FILE, data["input_file_id"], param="input_file_id")
        batch = batch_create_of_requests(
            tenant=self.tenant,
            file=file_of(self.tenant, file_id, param="input_file_id"),
            endpoint=data["endpoint"],
            metadata=data.get("metadata"),
            actor=request_actor(request),
        )
        return Response(batch_json(batch))


class OpenAiBatchDetailView(OpenAiBatchView):
    """One batch."""

    @extend_schema(
        operation_id="openai_batches_retrieve", responses={200: OpenAiBatchSerializer, **error_responses()}
    )
    def get(self, request: Request, batch_key: str, **_: Any) -> Response:
        """Get a batch and its progress."""
        return Response(batch_json(self.batch(batch_key)))


class OpenAiBatchCancelView(OpenAiBatchView):
    """Cancel a batch."""

    @extend_schema(
        operation_id="openai_batches_cancel",
        request=None,
        responses={200: OpenAiBatchSerializer, **error_responses(409)},
    )
    def post(self, request: Request, batch_key: str, **_: Any) -> Response:
        """Cancel a batch. Results so far are kept."""
        batch = self.batch(batch_key)
        return Response(batch_json(batch_cancel(batch=batch, actor=request_actor(request))))


def batch_json(batch: Batch) -> dict[str, Any]:
    """The JSON object of a batch."""
    ended, status = unix_time(batch.finished_at), _status(batch)
    return {
        "id": format_id(BATCH, batch.pk),
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model or None,
        "errors": {"object": "list", "data": [_error_json(batch)]} if batch.error_code else None,
        "input_file_id": _file_id(batch.input),
        "completion_window": COMPLETION_WINDOW,
        "status": status,
        "output_file_id": _file_id(batch.results),
        "error_file_id": _file_id(batch.errors),
        "created_at": unix_time(batch.created_at),
        "in_progress_at": unix_time(batch.started_at),
        "expires_at": unix_time(batch.expires_at),
        "finalizing_at": ended if batch.state == BatchState.COMPLETED else None,
        **{f"{name}_at": ended if status == name else None for name in ("completed", "failed", "expired")},
        "cancelling_at": ended if batch.state == BatchState.CANCELLED else None,
        "cancelled_at": ended if status == "cancelled" else None,
        "request_counts": {
            "total": batch.total_lines or 0,
            "completed": batch.succeeded,
            "failed": batch.failed,
        },
        "metadata": batch.metadata or None,
    }


def _error_json(batch: Batch) -> dict[str, Any]:
    """Why the batch failed."""
    error = HmiError(ErrorCode(batch.error_code), batch.error_message, param=batch.error_param or None)
    code = openai_code(error)
    return {"code": code, "message": error.message, "param": error.param, "line": batch.error_line}


def _status(batch: Batch) -> str:
    """OpenAI's name of the state."""
    if batch.is_active:
        return "validating" if batch.total_lines is None else "in_progress"
    if batch.files_ready:
        return batch.state
    return "cancelling" if batch.state == BatchState.CANCELLED else "finalizing"


def _file_id(file: File | None) -> str | None:
    return None if file is None else format_id(FILE, file.pk)
