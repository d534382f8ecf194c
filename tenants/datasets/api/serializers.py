"""Serializers of corpora, datasets, uploads and checks. The services check the content."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tenants.base.api.inputs import ChoiceField, StrictSerializer
from tenants.base.characters import check_characters
from tenants.base.errors import HmiError
from tenants.datasets.append_only_file import received_bytes, tail_sha256
from tenants.datasets.formats.row_parser import DEFAULT_SEPARATOR
from tenants.datasets.models import (
    DATASET_TASKS,
    CheckKind,
    Corpus,
    Dataset,
    DatasetSplit,
    Split,
    Upload,
    UploadCheck,
)
from tenants.datasets.storage import upload_store


class CorpusSerializer(serializers.ModelSerializer[Corpus]):
    """A stored corpus with its validation report."""

    created_by = serializers.CharField(
        source="created_by.username", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = Corpus
        fields = (
            "id",
            "name",
            "sha256",
            "size_bytes",
            "rows",
            "words",
            "report",
            "created_by",
            "created_at",
        )
        read_only_fields = fields


class CorpusFileSerializer(StrictSerializer):
    """A text file, one text a line, or JSON lines with ``text``."""

    file = serializers.FileField(allow_empty_file=True)


class CorpusUploadSerializer(CorpusFileSerializer):
    """A corpus and its name."""

    name = serializers.CharField(max_length=100)


class DatasetSplitSerializer(serializers.ModelSerializer[DatasetSplit]):
    """One split's canonical file."""

    class Meta:
        model = DatasetSplit
        fields = ("split", "rows", "size_bytes", "sha256")
        read_only_fields = fields


class DatasetSerializer(serializers.ModelSerializer[Dataset]):
    """A stored dataset with its validation report."""

    created_by = serializers.CharField(
        source="created_by.username", default=None, allow_null=True, read_only=True
    )
    splits = DatasetSplitSerializer(many=True, read_only=True)

    class Meta:
        model = Dataset
        fields = (
            "id",
            "name",
            "task",
            "pairs",
            "labels",
            "leaks_allowed",
            "splits",
            "report",
            "created_by",
            "created_at",
        )
        read_only_fields = fields


@extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
class ColumnsField(serializers.JSONField):
    """A mapping from canonical columns to those of the file. In a form it is JSON text."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        """Return the mapping. Raises ValidationError unless it is an object of strings that can be stored."""
        try:
            columns = super().to_internal_value(data)
        except RecursionError:
            self.fail("invalid")
        if not isinstance(columns, dict) or not all(isinstance(name, str) for name in columns.values()):
            raise serializers.ValidationError("It must be an object of columns and their names in the file.")
        check_characters({self.field_name: columns})
        return columns


class DatasetFilesSerializer(StrictSerializer):
    """The files of the splits. Without files for dev and test, their rows are taken from train."""

    task = serializers.CharField(help_text=", ".join(DATASET_TASKS))
    train = serializers.FileField(allow_empty_file=True)
    dev = serializers.FileField(allow_empty_file=True, required=False)
    test = serializers.FileField(allow_empty_file=True, required=False)
    columns = ColumnsField(required=False, help_text='Such as {"text": "sentence", "label": "category"}')
    separator = serializers.CharField(
        required=False, default=DEFAULT_SEPARATOR, help_text="Separates the labels in a cell (multilabel)."
    )
    allow_leaks = serializers.BooleanField(
        required=False, default=False, help_text="Allow splits that overlap more than the limit."
    )
    skip_invalid_rows = serializers.BooleanField(
        required=False, default=False, help_text="Leave out invalid rows instead of refusing the files."
    )


class DatasetUploadSerializer(DatasetFilesSerializer):
    """A dataset and its name."""

    name = serializers.CharField(max_length=100)


class CorrectionSerializer(StrictSerializer):
    """A row of train, counted from 0, and its label; null leaves the row out. For tagging, the tag of a
    token."""

    row = serializers.IntegerField(min_value=0)
    token = serializers.IntegerField(min_value=0, allow_null=True, default=None)
    label = serializers.CharField(  # type: ignore[assignment]
        allow_null=True, allow_blank=True, help_text="Several labels are joined by a comma and a space."
    )


class DatasetCorrectSerializer(StrictSerializer):
    """Corrections of a dataset, and the name of the new one."""

    name = serializers.CharField(
        max_length=100,
        required=False,
        default="",
        allow_blank=True,
        help_text="The next free one, such as tickets-2, if empty.",
    )
    corrections = CorrectionSerializer(many=True, allow_empty=False)


class PreviewSerializer(serializers.Serializer[Any]):
    """The validation report and the first rows of files that are not stored."""

    report = serializers.JSONField()
    rows = serializers.JSONField()


FILE_PURPOSES = {CheckKind.CORPUS: {"file"}, CheckKind.DATASET: set(Split.values)}


class UploadSerializer(serializers.ModelSerializer[Upload]):
    """An upload. ``offset`` is the number of bytes that arrived; ``sha256`` is set when it is complete."""

    offset = serializers.SerializerMethodField()

    class Meta:
        model = Upload
        fields: tuple[str, ...] = (
            "id",
            "filename",
            "fingerprint",
            "size_bytes",
            "offset",
            "sha256",
            "created_at",
            "expires_at",
        )
        read_only_fields = fields

    def get_offset(self, upload: Upload) -> int:
        """Return the length of its file, or 0 if the file was deleted meanwhile."""
        try:
            return received_bytes(upload_store().upload_path(upload.pk))
        except HmiError:
            return 0


class UploadDetailSerializer(UploadSerializer):
    """An upload. ``tail_sha256`` is of the last MiB that arrived: to compare before an upload is resumed."""

    tail_sha256 = serializers.SerializerMethodField()

    class Meta(UploadSerializer.Meta):
        fields = (*UploadSerializer.Meta.fields, "tail_sha256")
        read_only_fields = fields

    def get_tail_sha256(self, upload: Upload) -> str:
        """Return the digest, or raise ``not_found`` if the file was deleted meanwhile."""
        return tail_sha256(upload_store().upload_path(upload.pk))


class CheckCreateSerializer(StrictSerializer):
    """The uploads to check, and the corpus or dataset to store."""

    kind = ChoiceField(choices=CheckKind.choices)
    files = serializers.DictField(
        child=serializers.UUIDField(),
        help_text='Ids of complete uploads: {"file": id} for a corpus, {"train": id, …} for a dataset.',
    )
    store = serializers.BooleanField(default=True, help_text="If false, the files are only checked.")
    name = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    task = serializers.CharField(required=False, help_text=", ".join(DATASET_TASKS))
    columns = ColumnsField(required=False)
    guess_columns = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Without `columns`: use columns with usual names, such as message for text, where a file "
        "lacks those of the task.",
    )
    separator = serializers.CharField(required=False, default=DEFAULT_SEPARATOR)
    allow_leaks = serializers.BooleanField(required=False, default=False)
    skip_invalid_rows = serializers.BooleanField(required=False, default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check that the files fit the kind, and that a dataset has a task."""
        allowed = FILE_PURPOSES[CheckKind(attrs["kind"])]
        if not attrs["files"] or not set(attrs["files"]) <= allowed:
            names = ", ".join(sorted(allowed))
            raise serializers.ValidationError({"files": f"The files of a {attrs['kind']} are: {names}."})
        if attrs["kind"] == CheckKind.DATASET and "task" not in attrs:
            raise serializers.ValidationError({"task": "A dataset needs a task."}, code="required")
        return attrs


class CheckSerializer(serializers.ModelSerializer[UploadCheck]):
    """A check: its state, and its result. ``preview`` has the validation report and the first rows."""

    columns = ColumnsField(source="options.columns", default=None, allow_null=True, read_only=True)

    class Meta:
        model = UploadCheck
        fields = (
            "id",
            "kind",
            "name",
            "columns",
            "store",
            "files",
            "state",
            "preview",
            "error",
            "row_errors",
            "corpus",
            "dataset",
            "created_at",
            "finished_at",
        )
        read_only_fields = fields
