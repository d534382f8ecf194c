"""The shapes of the infer API, for its schema; `validation` does the checking and names the place."""

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_serializer
from rest_framework import serializers

from tenants.errors import ErrorCode


@extend_schema_serializer(component_name="Infer")
class InferRequestSerializer(serializers.Serializer[object]):
    """What a client sends."""

    model = serializers.CharField(help_text="`hplm`, `tenant/hplm`, with `@alias` or `:version`.")
    inputs = serializers.ListField(child=serializers.CharField(), help_text="Texts, each with one result.")
    timeout_s = serializers.FloatField(required=False, help_text="Seconds to wait at most.")


class ModelSerializer(serializers.Serializer[object]):
    """Which version answered."""

    name = serializers.CharField()
    version = serializers.IntegerField()
    digest = serializers.CharField()


class ClassResultSerializer(serializers.Serializer[object]):
    """Text classification: the likeliest label, and the probability of each."""

    label = serializers.CharField()  # type: ignore[assignment]
    scores = serializers.DictField(child=serializers.FloatField())
    truncated = serializers.BooleanField()


class SpanSerializer(serializers.Serializer[object]):
    """Characters `start` to `end` of the text, which read `text`."""

    start = serializers.IntegerField()
    end = serializers.IntegerField()
    text = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    score = serializers.FloatField()


class TagResultSerializer(serializers.Serializer[object]):
    """Token tagging: the spans found."""

    spans = SpanSerializer(many=True)
    truncated = serializers.BooleanField()


class UsageSerializer(serializers.Serializer[object]):
    """What the request used."""

    inputs = serializers.IntegerField()
    tokens = serializers.IntegerField()
    truncated = serializers.IntegerField()


class PlotSerializer(serializers.Serializer[object]):
    """How many fragments each level of the PLOT answered."""

    trigram = serializers.IntegerField()
    bigram = serializers.IntegerField()
    unigram = serializers.IntegerField()


class BatchSerializer(serializers.Serializer[object]):
    """The largest batch the request travelled in."""

    rows = serializers.IntegerField()
    tenants = serializers.IntegerField()


class TimingsSerializer(serializers.Serializer[object]):
    """Milliseconds."""

    queue = serializers.FloatField()
    retrieval = serializers.FloatField()
    adapter_load = serializers.FloatField()
    compute = serializers.FloatField()
    total = serializers.FloatField()


@extend_schema_serializer(component_name="InferAnswer")
class InferAnswerSerializer(serializers.Serializer[object]):
    """What a client gets back."""

    id = serializers.CharField()
    model = ModelSerializer()
    results = PolymorphicProxySerializer(
        component_name="InferResult",
        serializers=[ClassResultSerializer, TagResultSerializer],
        resource_type_field_name=None,
        many=True,
    )
    usage = UsageSerializer()
    plot = PlotSerializer()
    batch = BatchSerializer()
    timings_ms = TimingsSerializer()


class ErrorDetailSerializer(serializers.Serializer[object]):
    """What went wrong: its class, a code for programs, a sentence for people, and where."""

    type = serializers.CharField()
    code = serializers.ChoiceField(choices=[code.value for code in ErrorCode])
    message = serializers.CharField()
    param = serializers.CharField(allow_null=True)
    details = serializers.DictField(required=False)


@extend_schema_serializer(component_name="InferError")
class InferErrorSerializer(serializers.Serializer[object]):
    """The answer when there is none. 429 and 503 come with a Retry-After header."""

    error = ErrorDetailSerializer()
