"""The shapes of the infer API, for its schema; `validation` does the checking and names the place."""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from inference.api.validation import QUALITIES
from tenants.base.api.inputs import ChoiceField, StrictSerializer
from tenants.base.errors import ErrorCode


def _texts(*needed: str, maybe: str = "") -> dict[str, Any]:
    names = [*needed, maybe] if maybe else needed
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(needed),
        "additionalProperties": False,
    }


@extend_schema_field(
    {"oneOf": [{"type": "string"}, _texts("text", maybe="text_pair"), _texts("question", "context")]}
)
class InputField(serializers.JSONField):
    """A text; or two texts for a model of pairs; or a question and the context that holds its answer."""


@extend_schema_serializer(component_name="Infer")
class InferRequestSerializer(StrictSerializer):
    """An infer request."""

    model = serializers.CharField(help_text="`model`, `tenant/model`, with `@alias` or `:version`.")
    inputs = serializers.ListField(
        child=InputField(),
        help_text="Each a text, or the object that the model's task takes: `text` and `text_pair`, or "
        "`question` and `context` (a long one is read in windows that overlap). Each has one result.",
    )
    timeout_s = serializers.FloatField(required=False, help_text="Seconds to wait at most.")
    quality = ChoiceField(
        choices=QUALITIES,
        required=False,
        help_text="`fast`: every text is answered from the tables. `exact`: every text is computed in full. "
        "`balanced`: the tables answer where the model is sure, and the other texts are computed. "
        "By default the policy of the version decides, or that of the deployment.",
    )
    target = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        help_text="With `balanced`: the model's metric on its dev split that is to be reached at least cost.",
    )
    explain = serializers.BooleanField(
        required=False, default=False, help_text="Each result says how each of its tokens was made."
    )


class AnsweredBySerializer(serializers.Serializer[object]):
    """Which version answered."""

    name = serializers.CharField()
    version = serializers.IntegerField()
    digest = serializers.CharField()
    cascade = serializers.CharField(
        required=False,
        help_text="The digest of its cascade's profile; absent if that is part of the version.",
    )
    number_format = serializers.CharField(
        help_text="What it was computed in: `bfloat16`, `float16` or `float32`, with `int8+` before it where "
        "the weights of the upper layers are int8."
    )


class TokenSerializer(serializers.Serializer[object]):
    """Characters `start` to `end` of one of the input's texts, and what the tables gave for the fragment
    around them."""

    of = ChoiceField(choices=("text", "text_pair", "question", "context"))
    start = serializers.IntegerField()
    end = serializers.IntegerField()
    level = ChoiceField(choices=("trigram", "bigram", "unigram", "computed"))


class ResultSerializer(serializers.Serializer[object]):
    """Fields of every result."""

    truncated = serializers.BooleanField(help_text="Whether the text was too long and was truncated.")
    level = ChoiceField(choices=("table", "full"), help_text="Answered from the tables, or computed in full.")
    confidence = serializers.FloatField(
        required=False, help_text="The calibrated probability that the answer is right; numbers have none."
    )
    table = serializers.DictField(
        required=False, help_text="The answer from the tables, for a text that was then computed in full."
    )
    tokens = TokenSerializer(many=True, required=False, help_text="Only if the request sets `explain`.")


class ClassResultSerializer(ResultSerializer):
    """Text classification: the most likely label, and the probability of each."""

    label = serializers.CharField()  # type: ignore[assignment]
    scores = serializers.DictField(child=serializers.FloatField())


class SpanSerializer(serializers.Serializer[object]):
    """Characters `start` to `end` of the text, which read `text`."""

    start = serializers.IntegerField()
    end = serializers.IntegerField()
    text = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    score = serializers.FloatField()


class TagResultSerializer(ResultSerializer):
    """Token tagging: the spans found."""

    spans = SpanSerializer(many=True)


class LabelSetResultSerializer(ResultSerializer):
    """Multi-label classification: the labels above the model's threshold, and the probability of each."""

    labels = serializers.ListField(child=serializers.CharField())
    scores = serializers.DictField(child=serializers.FloatField())


class ValueResultSerializer(ResultSerializer):
    """Regression: a number in the units of the training data."""

    value = serializers.FloatField()


class AnswerResultSerializer(ResultSerializer):
    """Question answering: characters `start` to `end` of the context, which read `answer`; "" when the
    context does not say."""

    answer = serializers.CharField(allow_blank=True)
    start = serializers.IntegerField()
    end = serializers.IntegerField()
    score = serializers.FloatField()


class UsageSerializer(serializers.Serializer[object]):
    """What the request used."""

    inputs = serializers.IntegerField()
    tokens = serializers.IntegerField()
    truncated = serializers.IntegerField()


class PlotSerializer(serializers.Serializer[object]):
    """How the fragments were looked up."""

    trigram = serializers.IntegerField(help_text="Fragments found whole in the tables.")
    bigram = serializers.IntegerField(help_text="Fragments found by a shorter part.")
    unigram = serializers.IntegerField(help_text="Fragments found by their token alone.")
    hit_ratio = serializers.FloatField(
        allow_null=True, help_text="`trigram` as a share of all fragments; null where there are none."
    )


@extend_schema_serializer(component_name="InferBatch")
class BatchSerializer(serializers.Serializer[object]):
    """The largest batch that included the request."""

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
    """The response to an infer request."""

    id = serializers.CharField()
    model = AnsweredBySerializer()
    results = PolymorphicProxySerializer(
        component_name="InferResult",
        serializers=[
            ClassResultSerializer,
            LabelSetResultSerializer,
            ValueResultSerializer,
            TagResultSerializer,
            AnswerResultSerializer,
        ],
        resource_type_field_name=None,
        many=True,
    )
    usage = UsageSerializer()
    plot = PlotSerializer()
    batch = BatchSerializer()
    timings_ms = TimingsSerializer()


class ErrorDetailSerializer(serializers.Serializer[object]):
    """An error: its type, a code for programs, a message for people, and the field at fault."""

    type = serializers.CharField()
    code = ChoiceField(choices=[code.value for code in ErrorCode])
    message = serializers.CharField()
    param = serializers.CharField(allow_null=True)
    details = serializers.DictField(required=False)


@extend_schema_serializer(component_name="Error")
class InferErrorSerializer(serializers.Serializer[object]):
    """An error response. 429 and 503 have a Retry-After header."""

    error = ErrorDetailSerializer()
