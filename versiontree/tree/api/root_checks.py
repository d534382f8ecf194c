"""Check a checkpoint before it is registered as a root. Nothing is created."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import validated_body
from versiontree.jobs.api.jobs import PlatformView
from versiontree.tree.api.estimates import SecondsSerializer
from versiontree.tree.api.serializers import RootRegisterSerializer
from versiontree.tree.checkpoint_report import CheckpointReport
from versiontree.tree.models import Root
from versiontree.tree.selectors.versions import corpus_usable_by
from versiontree.tree.services.root_check import RootCheck, root_check


class CheckpointFileSerializer(serializers.Serializer[Any]):
    """A file that is read."""

    name = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes.")


class CheckpointProblemSerializer(serializers.Serializer[Any]):
    """What is not supported, and why."""

    code = serializers.CharField()
    message = serializers.CharField()


class CheckpointReportSerializer(serializers.Serializer[CheckpointReport]):
    """What a checkpoint is. Null is unknown, as all is of a hub id before it is downloaded."""

    family = serializers.CharField(help_text="The model type of config.json.")
    layers = serializers.IntegerField(allow_null=True)
    hidden = serializers.IntegerField(allow_null=True, help_text="The hidden size.")
    parameters = serializers.IntegerField(allow_null=True)
    dtypes = serializers.DictField(child=serializers.IntegerField(), help_text="Tensors by number format.")
    vocabulary = serializers.IntegerField(allow_null=True, help_text="Rows of the word embedding.")
    token_ids = serializers.IntegerField(
        allow_null=True, help_text="One more than the largest id of the tokenizer."
    )
    max_tokens = serializers.IntegerField(allow_null=True, help_text="Of the longest text.")
    head = serializers.CharField(help_text="The task head with its labels, or empty.")
    modules = serializers.ListField(
        child=serializers.CharField(), help_text="The modules of sentence-transformers."
    )
    files = CheckpointFileSerializer(many=True)
    size = serializers.IntegerField(help_text="Bytes of the files.")
    notes = serializers.ListField(child=serializers.CharField())
    problems = CheckpointProblemSerializer(
        many=True, help_text="Registering fails with these. Empty: it can be registered."
    )


class ConversionEstimateSerializer(serializers.Serializer[Any]):
    """What the root takes."""

    lower_layers = serializers.IntegerField(help_text="Layers below the cut.")
    upper_bytes = serializers.IntegerField(help_text="Memory of the upper layers in bfloat16.")
    lower_bytes = serializers.IntegerField(
        help_text="Memory of the lower layers in bfloat16, for the level full."
    )
    disk_bytes = serializers.IntegerField(help_text="The files without the table.")
    table_bytes = serializers.IntegerField(
        help_text="The uni-grams of the table. Its other rows depend on the corpus."
    )
    seconds = SecondsSerializer(allow_null=True, help_text="Of the conversion, roughly; null for a decoder.")
    past_jobs = serializers.IntegerField(
        help_text="Past conversions that the seconds are scaled from; 0: from one measured elsewhere."
    )


class RootCheckSerializer(serializers.Serializer[RootCheck]):
    """The report of a checkpoint, and what registering it takes."""

    report = CheckpointReportSerializer()
    estimate = serializers.SerializerMethodField()
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Those that the version's config would have."
    )

    @extend_schema_field(ConversionEstimateSerializer(allow_null=True))
    def get_estimate(self, check: RootCheck) -> dict[str, Any] | None:
        """The estimate. None if there are problems or the size is unknown."""
        return asdict(check.estimate) if check.estimate else None


class RootCheckView(PlatformView):
    """Check a checkpoint as registering it would, and estimate time, memory and disk space."""

    permissions = {"POST": ("tree.add_root",)}
    serializer_class = RootCheckSerializer
    takes_idempotency_key = False
    queryset = Root.objects.none()

    @extend_schema(request=RootRegisterSerializer, responses=RootCheckSerializer)
    def post(self, request: Request) -> Response:
        body = validated_body(RootRegisterSerializer, request)
        if body["corpus"] is not None:
            body["corpus"] = corpus_usable_by(None, body["corpus"])
        return Response(RootCheckSerializer(root_check(**body, actor=request_actor(request))).data)
