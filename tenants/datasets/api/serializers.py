"""What the API takes and shows. Checks of content are the services' concern."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tenants.base.api.inputs import StrictSerializer
from tenants.base.errors import HmiError
from tenants.datasets.formats.row_parser import DEFAULT_SEPARATOR
from tenants.datasets.models import CheckKind, Corpus, Dataset, DatasetSplit, Split, Task, Upload, UploadCheck
from tenants.datasets.storage import upload_store
from tenants.datasets.upload_file import received_bytes


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
    """Canonical column -> the file's, as JSON text in a form."""

    def to_internal_value(self, data: Any) -> dict[str, str]:
        """An object of texts."""
        try:
            columns = super().to_internal_value(data)
        except RecursionError:
            self.fail("invalid")
        if not isinstance(columns, dict) or not all(isinstance(name, str) for name in columns.values()):
            raise serializers.ValidationError("An object that maps columns to names in the file is needed.")
        return columns


class DatasetFilesSerializer(StrictSerializer):
    """The files of the splits; dev and test are taken from train when they are not given."""

    task = serializers.CharField(help_text=", ".join(Task.values))
    train = serializers.FileField(allow_empty_file=True)
    dev = serializers.FileField(allow_empty_file=True, required=False)
    test = serializers.FileField(allow_empty_file=True, required=False)
    columns = ColumnsField(required=False, help_text='Such as {"text": "sentence", "label": "category"}')
    separator = serializers.CharField(
        required=False, default=DEFAULT_SEPARATOR, help_text="Parts the labels of a cell (multilabel)."
    )
    allow_leaks = serializers.BooleanField(
        required=False, default=False, help_text="Take splits that share more texts than they should."
    )


class DatasetUploadSerializer(DatasetFilesSerializer):
    """A dataset and its name."""

    name = serializers.CharField(max_length=100)


class PreviewSerializer(serializers.Serializer[Any]):
    """What an upload would say: the validation report and the first rows."""

    report = serializers.JSONField()
    rows = serializers.JSONField()


PURPOSES = {CheckKind.CORPUS: {"file"}, CheckKind.DATASET: set(Split.values)}


class UploadSerializer(serializers.ModelSerializer[Upload]):
    """An upload; ``offset`` bytes of it are here, ``sha256`` is set once all are."""

    offset = serializers.SerializerMethodField()

    class Meta:
        model = Upload
        fields = ("id", "filename", "mark", "size_bytes", "offset", "sha256", "created_at", "expires_at")
        read_only_fields = fields

    def get_offset(self, upload: Upload) -> int:
        """The length of its file; 0 when that has gone meanwhile."""
        try:
            return received_bytes(upload_store().incoming_path(upload.pk))
        except HmiError:
            return 0


class CheckCreateSerializer(StrictSerializer):
    """Which uploads shall become what."""

    kind = serializers.ChoiceField(choices=CheckKind.choices)
    files = serializers.DictField(
        child=serializers.UUIDField(),
        help_text='Ids of complete uploads: {"file": id} of a corpus, {"train": id, …} of a dataset.',
    )
    stores = serializers.BooleanField(default=True, help_text="Without it, only checked.")
    name = serializers.CharField(max_length=100, required=False, default="")
    task = serializers.CharField(required=False, help_text=", ".join(Task.values))
    columns = ColumnsField(required=False)
    separator = serializers.CharField(required=False, default=DEFAULT_SEPARATOR)
    allow_leaks = serializers.BooleanField(required=False, default=False)

    def validate(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The files fit the kind, and a dataset has a task."""
        allowed = PURPOSES[CheckKind(asked["kind"])]
        if not asked["files"] or not set(asked["files"]) <= allowed:
            names = ", ".join(sorted(allowed))
            raise serializers.ValidationError({"files": f"The files of a {asked['kind']} are: {names}."})
        if asked["kind"] == CheckKind.DATASET and "task" not in asked:
            raise serializers.ValidationError({"task": "A dataset has a task."}, code="required")
        return asked


class CheckSerializer(serializers.ModelSerializer[UploadCheck]):
    """Where a check is, and what it found: ``found`` has a report and the first rows."""

    class Meta:
        model = UploadCheck
        fields = (
            "id",
            "kind",
            "name",
            "stores",
            "files",
            "state",
            "found",
            "refusal",
            "faults",
            "corpus",
            "dataset",
            "created_at",
            "finished_at",
        )
        read_only_fields = fields
