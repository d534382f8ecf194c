"""Requests and answers of `/v1/chat/completions` and `/v1/completions`, for the OpenAPI schema only:
`generation_requests` validates, and `completions` renders."""

from typing import Any, Final

from rest_framework import serializers

from inference.generation.requests import MAX_LOGPROBS, MAX_SEED, MAX_TOP_K
from inference.openai.choices import LENGTH, STOP
from inference.openai.generation_requests import MAX_CHOICES, MAX_COMPLETION_LOGPROBS
from inference.text.chat_template import ROLES
from tenants.base.api.inputs import ChoiceField

FINISH_REASONS: Final = (STOP, LENGTH)


class StreamOptionsSerializer(serializers.Serializer[Any]):
    """Options of a stream."""

    include_usage = serializers.BooleanField(
        required=False, help_text="A last chunk without choices has the usage."
    )
    continuous_usage_stats = serializers.BooleanField(
        required=False, help_text="With `include_usage`: each chunk has the usage until then."
    )


class GenerationRequestSerializer(serializers.Serializer[Any]):
    """Fields of chat and text completion requests."""

    model = serializers.CharField(help_text="A generative model.")
    max_tokens = serializers.IntegerField(required=False, min_value=1, help_text="Of each choice.")
    temperature = serializers.FloatField(required=False, min_value=0, max_value=2, default=1)
    top_p = serializers.FloatField(
        required=False, min_value=0, max_value=1, default=1, help_text="0: the likeliest token."
    )
    top_k = serializers.IntegerField(
        required=False, min_value=-1, max_value=MAX_TOP_K, default=0, help_text="0 or -1: no bound."
    )
    min_p = serializers.FloatField(required=False, min_value=0, max_value=1, default=0)
    repetition_penalty = serializers.FloatField(required=False, default=1)
    presence_penalty = serializers.FloatField(required=False, min_value=-2, max_value=2, default=0)
    frequency_penalty = serializers.FloatField(required=False, min_value=-2, max_value=2, default=0)
    seed = serializers.IntegerField(required=False, min_value=0, max_value=MAX_SEED)
    stop = serializers.JSONField(required=False, help_text="A string, or a list of up to four.")
    n = serializers.IntegerField(required=False, min_value=1, max_value=MAX_CHOICES, default=1)
    stream = serializers.BooleanField(required=False, default=False)
    stream_options = StreamOptionsSerializer(required=False)


class ChatMessageSerializer(serializers.Serializer[Any]):
    """A message of a chat."""

    role = ChoiceField([*ROLES, "developer"])
    content = serializers.JSONField(help_text="A text, or a list of parts of the type `text`.")
    name = serializers.CharField(required=False)


class ChatCompletionRequestSerializer(GenerationRequestSerializer):
    """A chat and a model."""

    messages = ChatMessageSerializer(many=True)
    max_completion_tokens = serializers.IntegerField(
        required=False, min_value=1, help_text="The same as `max_tokens`."
    )
    logprobs = serializers.BooleanField(required=False, default=False)
    top_logprobs = serializers.IntegerField(required=False, min_value=0, max_value=MAX_LOGPROBS)
    chat_template_kwargs = serializers.DictField(
        required=False, help_text="Values for variables of the root's chat template."
    )


class CompletionRequestSerializer(GenerationRequestSerializer):
    """Texts to continue and a model."""

    prompt = serializers.JSONField(help_text="A text, or a list of texts.")
    logprobs = serializers.IntegerField(required=False, min_value=0, max_value=MAX_COMPLETION_LOGPROBS)


class CompletionUsageSerializer(serializers.Serializer[Any]):
    """The tokens of all prompts and of all choices."""

    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    total_tokens = serializers.IntegerField()


class IgnoredFieldsSerializer(serializers.Serializer[Any]):
    """What an answer has besides OpenAI's fields."""

    ignored = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Fields of the request that were ignored."
    )


class CompletionExtensionSerializer(IgnoredFieldsSerializer):
    """What a completion has besides OpenAI's fields."""

    number_format = serializers.CharField(
        required=False, help_text="What it was computed in, such as `bfloat16`."
    )


class CompletionBaseSerializer(serializers.Serializer[Any]):
    """Fields of chat and text completions."""

    id = serializers.CharField()
    created = serializers.IntegerField()
    model = serializers.CharField(help_text="The version that answered: `tenant/model:version`.")
    system_fingerprint = serializers.CharField(help_text="A fingerprint of the version.")
    usage = CompletionUsageSerializer()
    hmi = CompletionExtensionSerializer(required=False)


class AssistantMessageSerializer(serializers.Serializer[Any]):
    """The message of the model."""

    role = serializers.CharField(help_text="`assistant`.")
    content = serializers.CharField()
    refusal = serializers.CharField(allow_null=True)


class ChatChoiceSerializer(serializers.Serializer[Any]):
    """One message."""

    index = serializers.IntegerField()
    message = AssistantMessageSerializer()
    logprobs = serializers.DictField(allow_null=True)
    finish_reason = ChoiceField(FINISH_REASONS)


class ChatCompletionSerializer(CompletionBaseSerializer):
    """The next message of a chat, in `n` choices. A stream has chunks of it."""

    object = serializers.CharField(help_text="`chat.completion`.")
    choices = ChatChoiceSerializer(many=True)


class TextChoiceSerializer(serializers.Serializer[Any]):
    """One continuation."""

    index = serializers.IntegerField()
    text = serializers.CharField()
    logprobs = serializers.DictField(allow_null=True)
    finish_reason = ChoiceField(FINISH_REASONS)


class CompletionSerializer(CompletionBaseSerializer):
    """Continuations of texts, `n` of each. A stream has chunks of it."""

    object = serializers.CharField(help_text="`text_completion`.")
    choices = TextChoiceSerializer(many=True)
