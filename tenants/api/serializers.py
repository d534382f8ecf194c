"""What the API takes and shows. Checks of content are the services' concern."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tenants.api.asked import Asked
from tenants.formats.check import DEFAULT_SEPARATOR
from tenants.models import ApiKey, Corpus, Dataset, DatasetSplit, Quota, Task, Tenant
from tenants.services.api_keys import LONGEST_OVERLAP


class TenantSerializer(serializers.ModelSerializer[Tenant]):
    """A tenant, and the asking user's role in it."""

    role = serializers.CharField(read_only=True, default=None, allow_null=True)

    class Meta:
        model = Tenant
        fields = ("slug", "name", "role", "created_at", "suspended_at", "shares_fragment_counts")
        read_only_fields = fields


class QuotaSerializer(serializers.ModelSerializer[Quota]):
    """What the tenant may have and use."""

    class Meta:
        model = Quota
        fields = (
            "max_domains",
            "max_hplms",
            "max_storage_bytes",
            "max_requests_per_day",
            "max_active_jobs",
            "max_api_keys",
            "max_invitations_per_day",
        )
        read_only_fields = fields


class RatesSerializer(serializers.Serializer[Any]):
    """What the tenant may do in a minute. 0: there is no limit."""

    requests_per_minute = serializers.IntegerField(help_text="Infer requests.")
    tokens_per_minute = serializers.IntegerField(help_text="Tokens of infer requests.")
    manage_per_minute = serializers.IntegerField(help_text="Other requests to the API.")


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


class CorpusFileSerializer(Asked):
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


class DatasetFilesSerializer(Asked):
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


class ApiKeySerializer(serializers.ModelSerializer[ApiKey]):
    """A key as it is shown after it was made: by its prefix, never whole."""

    expires_at = serializers.DateTimeField(source="expiry_date", allow_null=True, read_only=True)
    created_at = serializers.DateTimeField(source="created", read_only=True)
    created_by = serializers.CharField(
        source="created_by.username", default=None, allow_null=True, read_only=True
    )
    replaces = serializers.CharField(source="replaces_id", read_only=True, allow_null=True)
    replaced_by = serializers.CharField(
        source="replaced_by.prefix", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = ApiKey
        fields: tuple[str, ...] = (
            "prefix",
            "name",
            "scopes",
            "created_by",
            "created_at",
            "expires_at",
            "last_used_at",
            "requests_per_minute",
            "tokens_per_minute",
            "revoked",
            "revoked_at",
            "replaces",
            "replaced_by",
        )
        read_only_fields = fields


class ApiKeyCreateSerializer(Asked):
    """What a new key is to be."""

    name = serializers.CharField(max_length=50)
    scopes = serializers.ListField(child=serializers.CharField(), help_text="infer, manage")
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    requests_per_minute = serializers.IntegerField(
        required=False, allow_null=True, help_text="Of any kind, with this key, within the tenant's limits."
    )
    tokens_per_minute = serializers.IntegerField(
        required=False, allow_null=True, help_text="Of infer requests with this key."
    )


class ApiKeyRotateSerializer(Asked):
    """For how long the old key goes on."""

    overlap_s = serializers.IntegerField(
        min_value=0,
        max_value=int(LONGEST_OVERLAP.total_seconds()),
        default=24 * 3600,
        help_text="Seconds for which both keys work; 0 revokes the old one at once.",
    )


class ApiKeyMadeSerializer(ApiKeySerializer):
    """A new key, with its plaintext: shown this once."""

    key = serializers.CharField(read_only=True)

    class Meta(ApiKeySerializer.Meta):
        fields = (*ApiKeySerializer.Meta.fields, "key")
        read_only_fields = fields


class TenantChangeSerializer(Asked):
    """What an owner may change of the tenant."""

    shares_fragment_counts = serializers.BooleanField()


class WordsQuerySerializer(serializers.Serializer[Any]):
    """Only what has these words in its name."""

    words = serializers.CharField(required=False, default="")


class TenantDetailSerializer(serializers.Serializer[Any]):
    """A tenant with what it may use and uses."""

    slug = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    suspended_at = serializers.DateTimeField(allow_null=True)
    shares_fragment_counts = serializers.BooleanField()
    quota = QuotaSerializer()
    rates = RatesSerializer()
    storage_used_bytes = serializers.IntegerField()
    requests_today = serializers.IntegerField()
