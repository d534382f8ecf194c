"""Request and response bodies of batches."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from inference.batches.models import Batch, BatchState
from tenants.base.api.inputs import ChoiceField, StrictSerializer
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.api.serializers import ColumnsField


class BatchCreateSerializer(StrictSerializer):
    """A model, and a file of inputs for it: ``file`` or ``upload``."""

    model = serializers.CharField(max_length=256, help_text="`model`, `model@alias` or `model:3`.")
    file = serializers.FileField(
        required=False,
        allow_empty_file=True,
        help_text="JSON lines. Each is an input of `POST infer`; an object may have an `id` besides. Or a "
        "table (`.csv`, `.tsv`), or plain text (`.txt`).",
    )
    upload = serializers.UUIDField(required=False, help_text="A complete upload, instead of `file`.")
    columns = ColumnsField(
        required=False,
        help_text='Of a table: the column of each field of an input, such as {"text": "message"}. '
        "`input` means the first field. By default those with usual names.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "file" in attrs and "upload" in attrs:
            raise HmiError(ErrorCode.INVALID_FIELD, "Send a file or name an upload, not both.", param="file")
        if "file" not in attrs and "upload" not in attrs:
            raise HmiError(ErrorCode.MISSING_FIELD, "Send a file, or name an upload.", param="file")
        return attrs


class BatchesQuerySerializer(serializers.Serializer[Any]):
    """Filters of the list of batches."""

    state = ChoiceField(choices=BatchState.choices, required=False)


class BatchErrorSerializer(serializers.Serializer[Any]):
    """Why a batch failed. ``line`` is the number of the line of its file that is wrong."""

    code = serializers.CharField()
    message = serializers.CharField()
    param = serializers.CharField(allow_null=True)
    line = serializers.IntegerField(allow_null=True)


class BatchSerializer(serializers.ModelSerializer[Batch]):
    """A batch. ``lines`` of ``total_lines`` are processed.

    With ``columns`` its file is a table, and its results are the same table with the columns answer,
    confidence and error.

    ``results_bytes`` and ``errors_bytes`` are the sizes of its files, which can be fetched once
    ``files_ready``: a moment after its end.
    """

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
            "columns",
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
    def get_error(self, batch: Batch) -> dict[str, Any] | None:
        if not batch.error_code:
            return None
        return {
            "code": batch.error_code,
            "message": batch.error_message,
            "param": batch.error_param or None,
            "line": batch.error_line,
        }
