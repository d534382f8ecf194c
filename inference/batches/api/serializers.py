"""What the API takes and shows of batches."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from inference.batches.models import Batch, BatchState
from tenants.base.api.inputs import StrictInput
from tenants.base.errors import ErrorCode, HmiError


class BatchAskedSerializer(StrictInput):
    """A model, and a file of inputs for it."""

    model = serializers.CharField(max_length=256, help_text="`model`, `model@alias` or `model:3`.")
    file = serializers.FileField(
        required=False,
        allow_empty_file=True,
        help_text="JSON lines, each an input as `POST infer` takes it, or an object with an `id` besides.",
    )
    upload = serializers.UUIDField(required=False, help_text="A complete upload, in the place of `file`.")

    def validate(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One of both."""
        if "file" in asked and "upload" in asked:
            raise HmiError(ErrorCode.INVALID_FIELD, "Send a file or name an upload, not both.", param="file")
        if "file" not in asked and "upload" not in asked:
            raise HmiError(ErrorCode.MISSING_FIELD, "Send a file, or name an upload.", param="file")
        return asked


class BatchesQuerySerializer(serializers.Serializer[Any]):
    """Which of them."""

    state = serializers.ChoiceField(choices=BatchState.choices, required=False)


class BatchErrorSerializer(serializers.Serializer[Any]):
    """Why it could not go on."""

    code = serializers.CharField()
    message = serializers.CharField()


class BatchSerializer(serializers.ModelSerializer[Batch]):
    """A batch: ``lines`` of ``total_lines`` are done. ``results_bytes`` and ``errors_bytes`` are the sizes of
    what can be fetched when ``files_ready``, which is a moment after it was cancelled or has failed."""

    version = serializers.IntegerField(source="version_number", allow_null=True, read_only=True)
    files_ready = serializers.BooleanField(read_only=True)
    error = serializers.SerializerMethodField()

    class Meta:
        model = Batch
        fields = (
            "id",
            "model",
            "version",
            "filename",
            "state",
            "total_lines",
            "lines",
            "succeeded",
            "failed",
            "tokens",
            "results_bytes",
            "errors_bytes",
            "files_ready",
            "error",
            "created_at",
            "started_at",
            "finished_at",
            "expires_at",
        )
        read_only_fields = fields

    @extend_schema_field(BatchErrorSerializer(allow_null=True))
    def get_error(self, batch: Batch) -> dict[str, str] | None:
        """Of one that failed."""
        return {"code": batch.error_code, "message": batch.error_message} if batch.error_code else None
