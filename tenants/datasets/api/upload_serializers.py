"""What the API takes and shows of uploads that come in piece by piece, and of their checking."""

from typing import Any

from rest_framework import serializers

from tenants.base.api.strict_input import StrictInput
from tenants.base.errors import HmiError
from tenants.datasets.api.serializers import ColumnsField
from tenants.datasets.append_file import arrived
from tenants.datasets.formats.check import DEFAULT_SEPARATOR
from tenants.datasets.models import CheckKind, Split, Task, Upload, UploadCheck
from tenants.datasets.storage import upload_store

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
            return arrived(upload_store().arriving(upload.pk))
        except HmiError:
            return 0


class CheckAskedSerializer(StrictInput):
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
