"""Serializers of files, errors and metadata, and the JSON object of a file."""

from datetime import timedelta
from typing import Any, Final

from rest_framework import serializers

from inference.openai.ids import FILE, format_id, unix_time
from tenants.base.api.inputs import ChoiceField, StrictSerializer
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File
from tenants.datasets.models.file import UPLOADABLE_PURPOSES

MIN_LIFETIME_S: Final = 3600
MAX_LIFETIME_S: Final = 30 * 24 * 3600


class OpenAiErrorSerializer(serializers.Serializer[Any]):
    """An error."""

    class Inner(serializers.Serializer[Any]):
        """The message, the field that is wrong, and the code."""

        message = serializers.CharField()
        type = serializers.CharField()
        param = serializers.CharField(allow_null=True)
        code = serializers.CharField(allow_null=True)
        details = serializers.DictField(required=False)

        class Meta:
            ref_name = "OpenAiErrorInner"

    error = Inner()


class OpenAiFileSerializer(serializers.Serializer[Any]):
    """A file."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`file`.")
    bytes = serializers.IntegerField()
    created_at = serializers.IntegerField()
    expires_at = serializers.IntegerField(allow_null=True)
    filename = serializers.CharField()
    purpose = serializers.CharField()
    status = ChoiceField(["processed"])


class FileUploadSerializer(StrictSerializer):
    """A file and its purpose."""

    file = serializers.FileField(allow_empty_file=True)
    purpose = ChoiceField([str(purpose) for purpose in UPLOADABLE_PURPOSES])

    def get_fields(self) -> dict[str, Any]:
        """Add the two fields of ``expires_after``, an object in a form."""
        anchor = ChoiceField(["created_at"], required=False)
        seconds = serializers.IntegerField(required=False, min_value=MIN_LIFETIME_S, max_value=MAX_LIFETIME_S)
        lifetime = {"expires_after[anchor]": anchor, "expires_after[seconds]": seconds}
        return super().get_fields() | lifetime


class DeletedSerializer(serializers.Serializer[Any]):
    """The id of a deleted object."""

    id = serializers.CharField()
    object = serializers.CharField()
    deleted = serializers.BooleanField()


def file_json(file: File) -> dict[str, Any]:
    """The JSON object of a file."""
    return {
        "id": format_id(FILE, file.pk),
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": unix_time(file.created_at),
        "expires_at": unix_time(file.expires_at),
        "filename": file.filename,
        "purpose": str(file.purpose),
        "status": "processed",
    }


def lifetime_of(data: dict[str, Any]) -> timedelta | None:
    """The lifetime that the form asks for, or None."""
    seconds = data.get("expires_after[seconds]")
    if seconds is None and "expires_after[anchor]" in data:
        raise HmiError(
            ErrorCode.MISSING_FIELD,
            "The field expires_after[seconds] is missing.",
            param="expires_after[seconds]",
        )
    return None if seconds is None else timedelta(seconds=seconds)


MAX_METADATA: Final = 16
MAX_KEY_LENGTH, MAX_VALUE_LENGTH = 64, 512


class MetadataField(serializers.DictField):
    """A mapping of strings, with OpenAI's limits."""

    def __init__(self) -> None:
        child = serializers.CharField(max_length=MAX_VALUE_LENGTH, allow_blank=True)
        super().__init__(child=child, required=False, allow_null=True)

    def to_internal_value(self, data: Any) -> Any:
        """The mapping. Raises ValidationError beyond the limits."""
        metadata = super().to_internal_value(data)
        if len(metadata) > MAX_METADATA or any(len(key) > MAX_KEY_LENGTH for key in metadata):
            raise serializers.ValidationError(
                f"At most {MAX_METADATA} keys of at most {MAX_KEY_LENGTH} characters."
            )
        return metadata
