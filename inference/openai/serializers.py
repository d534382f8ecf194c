"""Files and errors in the shapes of the OpenAI conventions."""

from datetime import timedelta
from typing import Any, Final

from rest_framework import serializers

from inference.openai.lists import FILE, UPLOAD, unix, written_id
from tenants.base.api.inputs import StrictSerializer
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File, MultipartUpload
from tenants.datasets.models.file import UPLOADABLE_PURPOSES

SHORTEST_LIFE_S: Final = 3600
MAX_LIFETIME_S: Final = 30 * 24 * 3600


class OpenAiErrorSerializer(serializers.Serializer[Any]):
    """An error."""

    class Inner(serializers.Serializer[Any]):
        """What was wrong, where, and what it is called."""

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
    status = serializers.ChoiceField(["processed"])


class FileUploadSerializer(StrictSerializer):
    """A file and what it is for."""

    file = serializers.FileField(allow_empty_file=True)
    purpose = serializers.ChoiceField([str(purpose) for purpose in UPLOADABLE_PURPOSES])

    def get_fields(self) -> dict[str, Any]:
        """With two whose names are how the conventions write an object in a form."""
        anchor = serializers.ChoiceField(["created_at"], required=False)
        seconds = serializers.IntegerField(
            required=False, min_value=SHORTEST_LIFE_S, max_value=MAX_LIFETIME_S
        )
        life = {"expires_after[anchor]": anchor, "expires_after[seconds]": seconds}
        return super().get_fields() | life


class ExpiresAfterSerializer(StrictSerializer):
    """How long a file is kept."""

    anchor = serializers.ChoiceField(["created_at"])
    seconds = serializers.IntegerField(min_value=SHORTEST_LIFE_S, max_value=MAX_LIFETIME_S)


class UploadRequestSerializer(StrictSerializer):
    """A file that will come in parts."""

    bytes = serializers.IntegerField(min_value=1, max_value=2**53)
    filename = serializers.CharField(max_length=500)
    mime_type = serializers.CharField(max_length=200, required=False)
    purpose = serializers.ChoiceField([str(purpose) for purpose in UPLOADABLE_PURPOSES])
    expires_after = ExpiresAfterSerializer(required=False)


class OpenAiPartSerializer(StrictSerializer):
    """A part of a file."""

    data = serializers.FileField(allow_empty_file=True)  # type: ignore[assignment]  # their name


class CompletedSerializer(StrictSerializer):
    """Which parts, in their order, and what they should have together."""

    part_ids = serializers.ListField(child=serializers.CharField(max_length=100), max_length=100)
    md5 = serializers.RegexField("^[0-9A-Fa-f]{32}$", required=False, allow_null=True)


class OpenAiUploadSerializer(serializers.Serializer[Any]):
    """A file that comes in parts; ``file`` once it is completed."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`upload`.")
    bytes = serializers.IntegerField()
    created_at = serializers.IntegerField()
    expires_at = serializers.IntegerField()
    filename = serializers.CharField()
    purpose = serializers.CharField()
    status = serializers.ChoiceField(["pending", "completed", "cancelled"])
    file = OpenAiFileSerializer(allow_null=True)


class ShownPartSerializer(serializers.Serializer[Any]):
    """A part that has come in."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`upload.part`.")
    created_at = serializers.IntegerField()
    upload_id = serializers.CharField()


class DeletedSerializer(serializers.Serializer[Any]):
    """What was deleted."""

    id = serializers.CharField()
    object = serializers.CharField()
    deleted = serializers.BooleanField()


def shown_file(file: File) -> dict[str, Any]:
    """A file as JSON."""
    return {
        "id": written_id(FILE, file.pk),
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": unix(file.created_at),
        "expires_at": unix(file.expires_at),
        "filename": file.filename,
        "purpose": str(file.purpose),
        "status": "processed",
    }


def shown_upload(parted: MultipartUpload) -> dict[str, Any]:
    """A file in parts as JSON."""
    return {
        "id": written_id(UPLOAD, parted.pk),
        "object": "upload",
        "bytes": parted.size_bytes,
        "created_at": unix(parted.created_at),
        "expires_at": unix(parted.expires_at),
        "filename": parted.filename,
        "purpose": str(parted.purpose),
        "status": str(parted.state),
        "file": shown_file(parted.file) if parted.file else None,
    }


def life_of(asked: dict[str, Any]) -> timedelta | None:
    """How long the form wants the file kept."""
    seconds = asked.get("expires_after[seconds]")
    if seconds is None and "expires_after[anchor]" in asked:
        raise HmiError(ErrorCode.MISSING_FIELD, "Say after how many seconds.", param="expires_after[seconds]")
    return None if seconds is None else timedelta(seconds=seconds)


MAX_METADATA: Final = 16
MAX_KEY_LENGTH, LONGEST_VALUE = 64, 512


class MetadataField(serializers.DictField):
    """Texts by names, as many and as long as the OpenAI conventions allow."""

    def __init__(self) -> None:
        child = serializers.CharField(max_length=LONGEST_VALUE, allow_blank=True)
        super().__init__(child=child, required=False, allow_null=True)

    def to_internal_value(self, data: Any) -> Any:
        """The texts. Raises ValidationError."""
        given = super().to_internal_value(data)
        if len(given) > MAX_METADATA or any(len(key) > MAX_KEY_LENGTH for key in given):
            raise serializers.ValidationError(
                f"At most {MAX_METADATA} keys of at most {MAX_KEY_LENGTH} characters."
            )
        return given
