"""Serializers for the OpenAPI schema. `requests.parse_request` validates."""

from drf_spectacular.utils import extend_schema_field
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
    """The values of a tensor, flat in row-major order."""


class OipTensorSerializer(serializers.Serializer[object]):
    """Name, shape and datatype of a tensor."""

    name = serializers.CharField()
    shape = serializers.ListField(child=serializers.IntegerField())
    datatype = serializers.CharField()


class OipInputSerializer(OipTensorSerializer):
    """`TEXT`, or `TEXT` and `TEXT_PAIR`, or `QUESTION` and `CONTEXT`: BYTES of shape `[n]` or `[n, 1]`."""

    parameters = serializers.DictField(required=False, help_text="`binary_data_size`; `content_type`.")
    data = TextsField(required=False)  # type: ignore[assignment]


class OipRequestedOutputSerializer(serializers.Serializer[object]):
    """A requested output."""

    name = serializers.CharField()
    parameters = serializers.DictField(required=False, help_text="`binary_data`: send it as binary data.")


class OipInferRequestSerializer(serializers.Serializer[object]):
    """The body of an infer request."""

    id = serializers.CharField(required=False, help_text="Is returned in the response.")
    model_name = serializers.CharField(required=False, help_text="The same as in the URL.")
    model_version = serializers.CharField(required=False, help_text="The same as in the URL.")
    inputs = OipInputSerializer(many=True)
    outputs = OipRequestedOutputSerializer(many=True, required=False, help_text="All, if none are named.")
    parameters = serializers.DictField(
        required=False,
        help_text="`timeout` in microseconds; `binary_data_output`; `quality`, `target` as in the infer API.",
    )


class OipOutputSerializer(OipTensorSerializer):
    """An output tensor."""

    parameters = serializers.DictField(required=False)
    data = ValuesField(required=False)  # type: ignore[assignment]


class OipInferResponseSerializer(serializers.Serializer[object]):
    """The body of a response to an infer request."""

    model_name = serializers.CharField()
    model_version = serializers.CharField()
    id = serializers.CharField()
    parameters = serializers.DictField()
    outputs = OipOutputSerializer(many=True)


class OipServerSerializer(serializers.Serializer[object]):
    """The server, and the extensions of the protocol that it supports."""

    name = serializers.CharField()
    version = serializers.CharField()
    extensions = serializers.ListField(child=serializers.CharField())


class OipModelSerializer(serializers.Serializer[object]):
    """A model: its ready versions and its tensors. A dimension of -1 has a variable size."""

    name = serializers.CharField()
    versions = serializers.ListField(child=serializers.CharField())
    platform = serializers.CharField(help_text="`hmi_` and the task.")
    inputs = OipTensorSerializer(many=True)
    outputs = OipTensorSerializer(many=True)


class OipReadySerializer(serializers.Serializer[object]):
    """Whether the model is ready for inference."""

    name = serializers.CharField()
    ready = serializers.BooleanField()


class OipErrorSerializer(serializers.Serializer[object]):
    """An error message."""

    error = serializers.CharField()
