"""Serializers of exports and imports. They check types; the services validate values."""

from typing import Any

from rest_framework import serializers

from tenants.base.api.inputs import ChoiceField, StrictSerializer
from versiontree.transfer.archive.sandboxed_check import FORMATS


class ExportQuerySerializer(serializers.Serializer[Any]):
    """Query parameters of an export. ``branch``: include the domains and the root."""

    branch = serializers.BooleanField(required=False, default=False)
    format = ChoiceField(choices=["archive", *FORMATS], required=False, default="archive")


class ImportSerializer(StrictSerializer):
    """An archive as a zip file, a new name, and the parent if several versions match."""

    archive = serializers.FileField()
    name = serializers.CharField(required=False, allow_blank=True, default="")
    parent = serializers.IntegerField(  # type: ignore[assignment]
        required=False, allow_null=True, default=None
    )


class ImportAdapterSerializer(StrictSerializer):
    """A zip file of an adapter's folder, its parent, and what the folder does not have."""

    archive = serializers.FileField(help_text="A zip file of the folder that peft or adapters saved.")
    parent = serializers.IntegerField(  # type: ignore[assignment]
        help_text="The id of the ready version of a domain or root to build upon. The adapter must have been "
        "trained on the root's checkpoint."
    )
    name = serializers.CharField(help_text="Of a new model, or with `new_version` of an existing one.")
    new_version = serializers.BooleanField(required=False, default=False)
    labels = serializers.ListField(
        child=serializers.CharField(max_length=200),
        required=False,
        default=list,
        help_text="Names of the outputs in order, if the folder does not have them.",
    )
    task = ChoiceField(
        choices=["classification", "multilabel", "regression", "generation", "chat"],
        required=False,
        allow_blank=True,
        default="",
        help_text="The task of a text classifier, if the folder does not have it. Below a decoder: "
        "generation or chat; default: chat if the root has a chat template.",
    )
    pairs = serializers.BooleanField(required=False, default=False, help_text="Its inputs have two texts.")
    drop_lower = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Drop changes of the adapter in the layers that the domain's table replaces.",
    )
    license = serializers.CharField(required=False, allow_blank=True, default="", max_length=100)
