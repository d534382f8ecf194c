"""Serializers of the version tree. They check types; the services validate values.

Some fields have names that REST framework's own classes use too (``root``, ``parent``, ``source``). Its
metaclass removes fields from the class, so they do not collide, which type checkers do not know.
"""

from typing import Any

from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from tenants.base.api.inputs import ChoiceField, StrictSerializer
from versiontree.jobs.api.serializers import JobSummarySerializer
from versiontree.tree.api.job_settings import (
    ConversionSettingsField,
    PretrainingSettingsField,
    TrainingSettingsField,
    TrainingSettingsUpdateField,
)
from versiontree.tree.models import Alias, AliasMove, Domain, Hplm, Root, RootKind, Version
from versiontree.tree.models.hplm import MAX_CANARY_PERCENT
from versiontree.tree.models.version import VersionPolicy
from versiontree.tree.services.aliases import Rollback
from versiontree.tree.training_settings import DEFAULT_VECTORS

FREE_OBJECT = {"type": "object", "additionalProperties": True}


class RootSerializer(serializers.ModelSerializer[Root]):
    """A root. Once it is retired, nothing new is built on it."""

    class Meta:
        model = Root
        fields = ("id", "name", "kind", "license", "source_url", "created_at", "retired_at")
        read_only_fields = fields


class DomainSerializer(serializers.ModelSerializer[Domain]):
    """A domain; without a tenant it is the platform's."""

    root = serializers.CharField(source="root.name", read_only=True)  # type: ignore[assignment]
    tenant = serializers.CharField(source="tenant.slug", default=None, allow_null=True, read_only=True)

    class Meta:
        model = Domain
        fields = ("id", "name", "root", "tenant", "description", "created_at")
        read_only_fields = fields


class CanarySerializer(serializers.Serializer[Alias]):
    """The version that answers a share of the requests to an alias, in percent."""

    version = serializers.IntegerField(source="canary.number", read_only=True)
    percent = serializers.IntegerField(source="canary_percent", read_only=True)
    started_at = serializers.DateTimeField(source="canary_started_at", read_only=True)


class AliasSerializer(serializers.ModelSerializer[Alias]):
    """An alias and the number of its version, and its canary or null."""

    version = serializers.IntegerField(source="version.number", read_only=True)
    quick = serializers.BooleanField(
        source="version.is_quick", read_only=True, help_text="Whether that is a quick version."
    )
    canary = serializers.SerializerMethodField()

    class Meta:
        model = Alias
        fields = ("name", "version", "quick", "moved_at", "canary")
        read_only_fields = fields

    @extend_schema_field(CanarySerializer(allow_null=True))
    def get_canary(self, alias: Alias) -> dict[str, Any] | None:
        """The canary. None if the alias has none."""
        return CanarySerializer(alias).data if alias.canary_id else None


class AliasMoveSerializer(serializers.ModelSerializer[AliasMove]):
    """One move of an alias, by version numbers."""

    from_version = serializers.IntegerField(
        source="from_version.number", default=None, allow_null=True, read_only=True
    )
    to_version = serializers.IntegerField(
        source="to_version.number", default=None, allow_null=True, read_only=True
    )
    moved_by = serializers.CharField(
        source="moved_by.username", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = AliasMove
        fields = ("name", "from_version", "to_version", "reason", "moved_by", "moved_at")
        read_only_fields = fields


@extend_schema_serializer(component_name="Model")
class HplmSerializer(serializers.ModelSerializer[Hplm]):
    """A model with its aliases."""

    tenant = serializers.CharField(source="tenant.slug", read_only=True)
    aliases = AliasSerializer(many=True, read_only=True)

    class Meta:
        model = Hplm
        fields = ("name", "tenant", "task", "description", "license", "aliases", "created_at")
        read_only_fields = fields


POLICIES = [policy for policy in VersionPolicy.choices if policy[0] != VersionPolicy.NONE]


class VersionSerializer(serializers.ModelSerializer[Version]):
    """A version with the jobs that build it, in order."""

    name = serializers.CharField(read_only=True, help_text="Of the root, domain or model.")
    root = serializers.CharField(source="root.name", read_only=True)  # type: ignore[assignment]
    tenant = serializers.CharField(source="tenant.slug", default=None, allow_null=True, read_only=True)
    parent = serializers.IntegerField(  # type: ignore[assignment]
        source="parent_id", read_only=True, allow_null=True
    )
    quick = serializers.BooleanField(
        source="is_quick", read_only=True, help_text="It answers until the trained version is ready."
    )
    policy = serializers.SerializerMethodField()
    config = serializers.SerializerMethodField()
    jobs = serializers.SerializerMethodField()

    class Meta:
        model = Version
        fields: tuple[str, ...] = (
            "id",
            "kind",
            "name",
            "number",
            "root",
            "tenant",
            "parent",
            "quick",
            "state",
            "digest",
            "policy",
            "config",
            "metrics",
            "jobs",
            "created_at",
            "ready_at",
        )
        read_only_fields = fields

    @extend_schema_field(ChoiceField(choices=POLICIES, allow_null=True))
    def get_policy(self, version: Version) -> str | None:
        """Used for requests that set no quality. None: by the default of the installation."""
        return version.policy or None

    @extend_schema_field(FREE_OBJECT)
    def get_config(self, version: Version) -> dict[str, Any]:
        """The version's config, without paths of the server."""
        return {name: value for name, value in version.config.items() if name != "source"}

    @extend_schema_field(JobSummarySerializer(many=True))
    def get_jobs(self, version: Version) -> list[dict[str, Any]]:
        """The chain of jobs, first to last."""
        # Not by a serializer: one for each version would take most of the time of a list.
        chain = sorted(version.jobs.all(), key=lambda job: job.created_at)
        return [{"id": str(job.pk), "kind": job.kind, "state": job.state} for job in chain]


class NodeSerializer(VersionSerializer):
    """A version with its depth in the tree."""

    depth = serializers.IntegerField(source="tree_depth", read_only=True)

    class Meta(VersionSerializer.Meta):
        fields = (*VersionSerializer.Meta.fields, "depth")
        read_only_fields = fields


class TreeQuerySerializer(serializers.Serializer[Any]):
    """Query parameters of the tree."""

    after = serializers.IntegerField(
        required=False, default=0, min_value=0, help_text="The id of the last version you saw."
    )


class RootRegisterSerializer(StrictSerializer):
    """A new root: a checkpoint folder or hub id, and the platform corpus to convert an encoder with.

    A decoder's source may be a GGUF file, and it takes no ``corpus``, ``alpha``, ``budget_mb`` and
    ``vectors``. With ``convert`` false an encoder takes none either: it is served as it is, computed in full.
    ``first_model``: ``tenant/model``, made of the checkpoint's task head; ``pairs``: its inputs are two
    texts.
    """

    name = serializers.CharField()
    kind = ChoiceField(choices=RootKind.choices, required=False, default=RootKind.ENCODER)
    source = serializers.CharField()  # type: ignore[assignment]
    license = serializers.CharField(required=False, allow_blank=True, default="")
    source_url = serializers.CharField(required=False, allow_blank=True, default="")
    corpus = serializers.IntegerField(required=False, allow_null=True, default=None)
    lower_layers = serializers.IntegerField(required=False, allow_null=True, default=None)
    alpha = serializers.FloatField(required=False, allow_null=True, default=None)
    budget_mb = serializers.FloatField(required=False, allow_null=True, default=None)
    vectors = serializers.CharField(required=False, default=DEFAULT_VECTORS)
    settings = ConversionSettingsField()
    convert = serializers.BooleanField(required=False, default=True)
    first_model = serializers.CharField(required=False, allow_blank=True, default="")
    pairs = serializers.BooleanField(required=False, default=False)


class RootConvertSerializer(StrictSerializer):
    """A conversion of a root. ``corpus``: the id of a corpus of the platform; by default that of the newest
    version, if it was converted."""

    corpus = serializers.IntegerField(required=False, allow_null=True, default=None)


class DomainUpdateSerializer(StrictSerializer):
    """An update of a domain with a corpus. ``alpha`` or ``budget_mb``, and ``vectors`` are inherited."""

    corpus = serializers.IntegerField()
    alpha = serializers.FloatField(required=False, allow_null=True, default=None)
    budget_mb = serializers.FloatField(required=False, allow_null=True, default=None)
    vectors = serializers.CharField(required=False, allow_null=True, default=None)
    settings = PretrainingSettingsField()


class DomainCreateSerializer(StrictSerializer):
    """A new domain: ``parent`` is the id of a ready version of a root or domain."""

    name = serializers.CharField()
    parent = serializers.IntegerField()  # type: ignore[assignment]
    corpus = serializers.IntegerField()
    alpha = serializers.FloatField(required=False, allow_null=True, default=None)
    budget_mb = serializers.FloatField(required=False, allow_null=True, default=None)
    vectors = serializers.CharField(required=False, default=DEFAULT_VECTORS)
    description = serializers.CharField(required=False, allow_blank=True, default="")
    settings = PretrainingSettingsField()


@extend_schema_serializer(component_name="ModelUpdate")
class HplmUpdateSerializer(StrictSerializer):
    """An update of a model. ``auto_promote``: move ``default`` to the new version once it is ready."""

    dataset = serializers.IntegerField()
    settings: serializers.JSONField = TrainingSettingsUpdateField()
    auto_promote = serializers.BooleanField(required=False, default=True)


@extend_schema_serializer(component_name="ModelCreate")
class HplmCreateSerializer(HplmUpdateSerializer):
    """A new model: ``parent`` is the id of a ready version of a root or domain, by default the recommended
    one. ``quick``: version 1 is a quick one, which answers until the trained version 2 is ready; without
    effect on a model that answers questions or writes text."""

    name = serializers.CharField()
    license = serializers.CharField(required=False, allow_blank=True, default="")
    parent = serializers.IntegerField(required=False, allow_null=True, default=None)  # type: ignore[assignment]
    settings = TrainingSettingsField()
    quick = serializers.BooleanField(required=False, default=True)


@extend_schema_serializer(component_name="ModelPatch")
class HplmPatchSerializer(StrictSerializer):
    """Changes of a model's name, description and license. Requests by the former name get ``not_found``."""

    name = serializers.CharField(required=False)
    description = serializers.CharField(required=False, allow_blank=True)
    license = serializers.CharField(required=False, allow_blank=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError({"license": "Set this, description or name."})
        return attrs


@extend_schema_serializer(component_name="VersionPatch")
class VersionPatchSerializer(StrictSerializer):
    """The policy of a version of a model. Null: the default of the installation."""

    policy = ChoiceField(choices=POLICIES, allow_null=True)


class AliasPutSerializer(StrictSerializer):
    """The number of the version to point at, and a reason."""

    version = serializers.IntegerField(min_value=1)
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)


class RollbackRequestSerializer(StrictSerializer):
    """``from_version``: the number of the version to roll back from. If the alias was rolled back from it
    already, nothing moves; if it points elsewhere, the answer is ``conflict``."""

    from_version = serializers.IntegerField(min_value=1, required=False, allow_null=True, default=None)
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)


class RollbackSerializer(serializers.Serializer[Rollback]):
    """The alias with the number of its version, and that of the version that it was rolled back from.
    ``moved`` is false if it had been rolled back already."""

    name = serializers.CharField(source="alias.name", read_only=True)
    version = serializers.IntegerField(source="alias.version.number", read_only=True)
    from_version = serializers.IntegerField(source="from_version.number", read_only=True)
    moved = serializers.BooleanField(read_only=True)
    moved_at = serializers.DateTimeField(source="alias.moved_at", read_only=True)


class CanaryPutSerializer(StrictSerializer):
    """The number of the version to try, and its share of the requests in percent."""

    version = serializers.IntegerField(min_value=1)
    percent = serializers.IntegerField(min_value=1, max_value=MAX_CANARY_PERCENT)
