"""What the manage API takes of exports and imports. Checks of content are the services' concern.

A field may be called ``parent`` (see ``serializers``).
"""

from typing import Any

from rest_framework import serializers

from tenants.base.api.inputs import StrictSerializer
from versiontree.transfer.archive.sandboxed_check import FORMATS


class ExportQuerySerializer(serializers.Serializer[Any]):
    """Whether the archive holds what the version stands on, too."""

    branch = serializers.BooleanField(required=False, default=False)
    format = serializers.ChoiceField(choices=["archive", *FORMATS], required=False, default="archive")


class ImportSerializer(StrictSerializer):
    """An archive as a zip file, its name here, and the version it stands on if several fit."""

    archive = serializers.FileField()
    name = serializers.CharField(required=False, allow_blank=True, default="")
    parent = serializers.IntegerField(  # type: ignore[assignment]
        required=False, allow_null=True, default=None
    )


class ImportAdapterSerializer(StrictSerializer):
    """The zip file of an adapter's folder, what it stands on, and what the folder does not say."""

    archive = serializers.FileField(help_text="A zip file of the folder that peft or adapters saved.")
    parent = serializers.IntegerField(  # type: ignore[assignment]
        help_text="The ready version of a domain or root that it shall stand on; the root must be of the "
        "checkpoint that it was trained on."
    )
    name = serializers.CharField(
        help_text="Of the model: a new one, or with `new_version` one that is there."
    )
    new_version = serializers.BooleanField(required=False, default=False)
    labels = serializers.ListField(
        child=serializers.CharField(max_length=200),
        required=False,
        default=list,
        help_text="Names of the outputs, in their order, where the folder does not name them.",
    )
    task = serializers.ChoiceField(
        choices=["classification", "multilabel", "regression"],
        required=False,
        allow_blank=True,
        default="",
        help_text="Of an adapter that reads whole texts, where the folder does not say it.",
    )
    pairs = serializers.BooleanField(required=False, default=False, help_text="Its inputs have two texts.")
    drop_lower = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Leave out what the adapter changes in the layers that the domain's table replaces.",
    )
    license = serializers.CharField(required=False, allow_blank=True, default="", max_length=100)
