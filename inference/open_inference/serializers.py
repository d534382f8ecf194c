"""The shapes of the Open Inference Protocol, for the schema; `calls` does the checking."""

from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

TEXTS = {"type": "array", "items": {"type": "string"}}
VALUES = {
    "type": "array",
    "items": {"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]},
}


@extend_schema_field(TEXTS)
class TextsField(serializers.JSONField):
    """The texts of a tensor."""


@extend_schema_field(VALUES)
class ValuesField(serializers.JSONField):
    """The values of a tensor, row after row."""


class OipTensorSerializer(serializers.Serializer[object]):
    """What every tensor says."""

    name = serializers.CharField()
    shape = serializers.ListField(child=serializers.IntegerField())
    datatype = serializers.CharField()


@extend_schema_serializer(component_name="OipInput")
class OipInputSerializer(OipTensorSerializer):
    """`TEXT`, or `TEXT` and `TEXT_PAIR`, or `QUESTION` and `CONTEXT`: BYTES of shape `[n]` or `[n, 1]`."""

    parameters = serializers.DictField(required=False, help_text="`binary_data_size` in the place of `data`.")
    data = TextsField(required=False)  # type: ignore[assignment]


@extend_schema_serializer(component_name="OipWanted")
class OipRequestedOutputSerializer(serializers.Serializer[object]):
    """An output that is asked for."""

    name = serializers.CharField()
    parameters = serializers.DictField(required=False, help_text="`binary_data`: as bytes behind the JSON.")


@extend_schema_serializer(component_name="OipInfer")
class OipRequestSerializer(serializers.Serializer[object]):
    """What a client sends."""

    id = serializers.CharField(required=False, help_text="Comes back in the answer.")
    model_name = serializers.CharField(required=False, help_text="The same as in the address.")
    inputs = OipInputSerializer(many=True)
    outputs = OipRequestedOutputSerializer(many=True, required=False, help_text="All, if none are named.")
    parameters = serializers.DictField(
        required=False,
        help_text="`timeout` in microseconds; `binary_data_output`; `miss_policy` (the platform's staff).",
    )


@extend_schema_serializer(component_name="OipOutput")
class OipOutputSerializer(OipTensorSerializer):
    """One output."""

    parameters = serializers.DictField(required=False)
    data = ValuesField(required=False)  # type: ignore[assignment]


@extend_schema_serializer(component_name="OipAnswer")
class OipAnswerSerializer(serializers.Serializer[object]):
    """What a client gets back, and what was learnt on the way."""

    model_name = serializers.CharField()
    model_version = serializers.CharField()
    id = serializers.CharField()
    parameters = serializers.DictField()
    outputs = OipOutputSerializer(many=True)


@extend_schema_serializer(component_name="OipServer")
class OipServerSerializer(serializers.Serializer[object]):
    """The server, and which extensions of the protocol it knows."""

    name = serializers.CharField()
    version = serializers.CharField()
    extensions = serializers.ListField(child=serializers.CharField())


@extend_schema_serializer(component_name="OipModel")
class OipModelSerializer(serializers.Serializer[object]):
    """A model: its versions that can be asked, and its tensors. In a shape, -1 is as many as there are."""

    name = serializers.CharField()
    versions = serializers.ListField(child=serializers.CharField())
    platform = serializers.CharField(help_text="`hmi_` and the task.")
    inputs = OipTensorSerializer(many=True)
    outputs = OipTensorSerializer(many=True)


@extend_schema_serializer(component_name="OipReady")
class OipReadySerializer(serializers.Serializer[object]):
    """Whether the model would answer now."""

    name = serializers.CharField()
    ready = serializers.BooleanField()


@extend_schema_serializer(component_name="OipError")
class OipErrorSerializer(serializers.Serializer[object]):
    """What went wrong, in words."""

    error = serializers.CharField()
