"""`/v1/embeddings`: texts as vectors."""

import math
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiExample, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request

from inference.api.prepared_request import with_prompt
from inference.api.schema import HEADER_PARAMETERS, answer_headers
from inference.api.validation import InferCall, fit_inputs, invalid, parse_call
from inference.api.views import InferAPIView, json_response
from inference.batches.endpoints import EncoderEndpoint
from inference.openai.completions import hmi_json
from inference.openai.errors import PermissiveNegotiation, error_responses
from inference.openai.generation_serializers import IgnoredFieldsSerializer
from inference.openai.request_fields import known_fields, shown
from inference.text.encodings import InferInput
from tenants.base.api.inputs import ChoiceField
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import RequestApi
from versiontree.tree.resolution import ResolvedModel

FLOAT, BASE64 = "float", "base64"
ENCODINGS: Final = (FLOAT, BASE64)
FIELDS: Final = ("model", "input", "encoding_format", "dimensions", "prompt_name")
NORMALIZE: Final = ("normalize", "normalized")
LANGCHAIN_HINT: Final = "OpenAIEmbeddings(check_embedding_ctx_length=False)"
"""LangChain's class counts tokens, and sends their ids, unless it is told not to."""


class EmbeddingsRequestSerializer(serializers.Serializer[Any]):
    """Texts and a model. For the OpenAPI schema only; `parse_embeddings_request` validates."""

    model = serializers.CharField()
    input = serializers.JSONField(help_text="A text, or a list of texts.")
    encoding_format = ChoiceField(ENCODINGS, required=False, default=FLOAT)
    dimensions = serializers.IntegerField(required=False, min_value=1)
    prompt_name = serializers.CharField(
        required=False, help_text="Of a prompt of the model's root, which is put before each text."
    )


class EmbeddingSerializer(serializers.Serializer[Any]):
    """A vector: numbers, or base64 of little-endian fp32."""

    object = serializers.CharField(help_text="`embedding`.")
    index = serializers.IntegerField()
    embedding = serializers.JSONField()


class EmbeddingsSerializer(serializers.Serializer[Any]):
    """One vector for each text, in their order."""

    object = serializers.CharField(help_text="`list`.")
    data = EmbeddingSerializer(many=True)  # type: ignore[assignment]  # the name of the field in OpenAI's API
    model = serializers.CharField()
    usage = inline_serializer(
        "EmbeddingsUsage",
        {"prompt_tokens": serializers.IntegerField(), "total_tokens": serializers.IntegerField()},
    )
    hmi = IgnoredFieldsSerializer(required=False)


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """How the vectors are formatted: the encoding, how many dimensions are kept, and whether they are scaled
    to length 1 even where the root does not do so. ignored: the fields of the request that the answer lists.
    """

    encoding: str
    dimensions: int | None
    normalize: bool = False
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingsRequest:
    """A validated request for embeddings."""

    call: InferCall
    options: EmbeddingOptions
    prompt_name: str | None = None


class EmbeddingsView(InferAPIView):
    """`POST /v1/embeddings`."""

    api = RequestApi.EMBEDDINGS
    content_negotiation_class: Any = PermissiveNegotiation

    @extend_schema(
        operation_id="openai_embeddings",
        request={"application/json": EmbeddingsRequestSerializer},
        responses={200: EmbeddingsSerializer, **error_responses(400, 408, 409, 413, 504)},
        parameters=HEADER_PARAMETERS,
        examples=[
            OpenApiExample("Two texts", {"model": "acme/tickets", "input": ["One", "Two"]}, request_only=True)
        ],
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Create embeddings of texts."""
        body = parse_embeddings_request(request.data)
        tenant = self.enter_tenant_of(request, body.call.model)
        submit = partial(
            self.submit, request, body.call, tenant=tenant, embed=True, prompt_name=body.prompt_name
        )
        return self.answer_later(submit, partial(_embeddings_response, options=body.options))


def _embeddings_response(answer: Mapping[str, Any], options: EmbeddingOptions) -> HttpResponse:
    model, tokens = answer["model"], answer["usage"]["tokens"]
    vectors = _embeddings_json(answer["results"], f"{model['name']}:{model['version']}", options)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response(vectors | {"usage": usage}, answer_headers(answer))


class EmbeddingsEndpoint(EncoderEndpoint):
    """`/v1/embeddings` in batches. Responses lack `usage`: tokens are not counted per text."""

    embeds = True

    def parse_body(
        self, body: Mapping[str, Any], model: ResolvedModel
    ) -> tuple[tuple[InferInput, ...], object]:
        request = parse_embeddings_request(body)
        texts = fit_inputs(request.call.inputs, task="", pairs=False)
        return with_prompt(texts, root=model.root_digest, name=request.prompt_name), request.options

    def response_body(self, results: Sequence[dict[str, Any]], model: str, options: Any) -> dict[str, Any]:
        return _embeddings_json(results, model, options)


def parse_embeddings_request(body: object) -> EmbeddingsRequest:
    """Validate the JSON value of a request. Raises `missing_field`, `invalid_field`, `empty_text`,
    `invalid_encoding`, `too_many_inputs`."""
    if not isinstance(body, Mapping):
        raise invalid(None, 'The body must be a JSON object: {"model": "...", "input": ["..."]}.')
    _, ignored = known_fields(body, FIELDS)
    for name in ("model", "input"):
        if body.get(name) is None:
            raise HmiError(ErrorCode.MISSING_FIELD, f"The field {name!r} is missing.", param=name)
    encoding = body.get("encoding_format")
    if encoding is not None and encoding not in ENCODINGS:
        raise invalid("encoding_format", f"The format is {' or '.join(ENCODINGS)}.")
    dimensions = body.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise invalid("dimensions", "This is a whole number above 0.")
    prompt_name = body.get("prompt_name")
    if prompt_name is not None and not isinstance(prompt_name, str):
        raise invalid("prompt_name", "This is the name of a prompt.")
    normalize = any(body.get(name) for name in NORMALIZE)  # all other values are refused
    options = EmbeddingOptions(encoding or FLOAT, dimensions, normalize, shown(ignored))
    return EmbeddingsRequest(_call(body["model"], body["input"]), options, prompt_name)


def _call(model: object, value: object) -> InferCall:
    texts = value if isinstance(value, list) else [value]
    if texts and all(isinstance(part, int | list) and not isinstance(part, bool) for part in texts):
        raise invalid("input", f"Token ids are not supported. Send text; in LangChain: {LANGCHAIN_HINT}.")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise invalid(f"input[{index}]", f"Input {index} is not a string.")
    try:
        return parse_call({"model": model, "inputs": texts})
    except HmiError as error:
        error.param = error.param and error.param.replace("inputs", "input", 1)
        raise


def _embeddings_json(
    results: Sequence[Mapping[str, Any]], model: str, options: EmbeddingOptions
) -> dict[str, Any]:
    vectors = [_scaled(result["embedding"], options) for result in results]
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": vector if options.encoding == BASE64 else _decode(vector),
        }
        for index, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": model, **hmi_json(options.ignored)}


def _scaled(vector: str, options: EmbeddingOptions) -> str:
    """A base64 vector as it is, or its first dimensions, or all, scaled to length 1. Raises `invalid_field`
    if it has fewer."""
    dimensions = options.dimensions
    if dimensions is None and not options.normalize:
        return vector
    numbers = _decode(vector)
    if dimensions is not None and dimensions > len(numbers):
        raise invalid("dimensions", f"This model gives {len(numbers)} dimensions.")
    kept = numbers[:dimensions]
    length = math.sqrt(math.fsum(number * number for number in kept)) or 1.0
    scaled = array("f", (number / length for number in kept))
    return b64encode(_little_endian(scaled).tobytes()).decode()


def _decode(vector: str) -> list[float]:
    """The numbers in base64 of little-endian fp32."""
    numbers = array("f")
    numbers.frombytes(b64decode(vector))
    return _little_endian(numbers).tolist()


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
