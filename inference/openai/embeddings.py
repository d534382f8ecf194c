"""`/v1/embeddings`: texts as vectors, in the eyes of a model."""

import math
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drf_spectacular.utils import OpenApiExample, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inference.api.answer_headers import IN_THE_SCHEMA, answer_headers
from inference.api.asks_a_model import AsksAModel
from inference.api.inputs import check_inputs, invalid
from inference.api.validation import check_reference
from inference.openai.errors import PermissiveNegotiation, errors
from tenants.base.api.inputs import unknown_field
from tenants.base.errors import ErrorCode, HmiError

FLOAT, BASE64 = "float", "base64"
FORMATS: Final = (FLOAT, BASE64)
FIELDS: Final = ("model", "input", "encoding_format", "dimensions", "user")


class EmbeddingsAskedSerializer(serializers.Serializer[Any]):
    """Texts, and the model that reads them, for the schema; `read_asked` does the checking."""

    model = serializers.CharField()
    input = serializers.JSONField(help_text="A text, or a list of texts.")
    encoding_format = serializers.ChoiceField(FORMATS, required=False, default=FLOAT)
    dimensions = serializers.IntegerField(required=False, min_value=1)
    user = serializers.CharField(required=False)


class EmbeddingSerializer(serializers.Serializer[Any]):
    """A vector of length 1: numbers, or base64 of little-endian fp32."""

    object = serializers.CharField(help_text="`embedding`.")
    index = serializers.IntegerField()
    embedding = serializers.JSONField()


class EmbeddingsSerializer(serializers.Serializer[Any]):
    """One vector for each text, in their order."""

    object = serializers.CharField(help_text="`list`.")
    data = EmbeddingSerializer(many=True)  # type: ignore[assignment]  # their name
    model = serializers.CharField()
    usage = inline_serializer(
        "EmbeddingsUsage",
        {"prompt_tokens": serializers.IntegerField(), "total_tokens": serializers.IntegerField()},
    )


@dataclass(frozen=True, slots=True)
class StrictInput:
    """A well-formed request."""

    model: str
    texts: tuple[str, ...]
    encoding: str
    dimensions: int | None


class EmbeddingsView(AsksAModel):
    """`POST /v1/embeddings`."""

    content_negotiation_class: Any = PermissiveNegotiation

    @extend_schema(
        operation_id="openai_embeddings",
        request={"application/json": EmbeddingsAskedSerializer},
        responses={200: EmbeddingsSerializer, **errors(400, 408, 409, 413, 504)},
        parameters=IN_THE_SCHEMA,
        examples=[
            OpenApiExample("Two texts", {"model": "acme/tickets", "input": ["One", "Two"]}, request_only=True)
        ],
    )
    def post(self, request: Request) -> Response:
        """Turn texts into vectors."""
        asked = read_asked(request.data)
        tenant = self.enter_tenant_of(request, asked.model)
        answer = self.ask(request, tenant=tenant, reference=asked.model, inputs=asked.texts, embed=True)
        return Response(_shown(answer, asked), headers=answer_headers(answer))


def read_asked(body: object) -> StrictInput:
    """What the JSON value asks for. Raises `missing_field`, `invalid_field`, `empty_text`,
    `invalid_encoding`, `too_many_inputs`."""
    if not isinstance(body, Mapping):
        raise invalid(None, 'The body must be a JSON object: {"model": "...", "input": ["..."]}.')
    for name in body:
        if name not in FIELDS:
            raise unknown_field(str(name), FIELDS)
    for name in ("model", "input"):
        if body.get(name) is None:
            raise HmiError(ErrorCode.MISSING_FIELD, f"The field {name!r} is missing.", param=name)
    encoding = body.get("encoding_format")
    if encoding is not None and encoding not in FORMATS:
        raise invalid("encoding_format", f"The format is {' or '.join(FORMATS)}.")
    dimensions = body.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise invalid("dimensions", "This is a whole number above 0.")
    return StrictInput(check_reference(body["model"]), _texts(body["input"]), encoding or FLOAT, dimensions)


def shortened(vector: str, dimensions: int | None) -> str:
    """The first numbers of a vector, at length 1 again; `invalid_field` where it has not so many."""
    if dimensions is None:
        return vector
    numbers = numbers_of(vector)
    if dimensions > len(numbers):
        raise invalid("dimensions", f"This model gives {len(numbers)} dimensions.")
    kept = numbers[:dimensions]
    length = math.sqrt(math.fsum(number * number for number in kept)) or 1.0
    shorter = array("f", (number / length for number in kept))
    return b64encode(_little_endian(shorter).tobytes()).decode()


def numbers_of(vector: str) -> list[float]:
    """What base64 of little-endian fp32 stands for."""
    numbers = array("f")
    numbers.frombytes(b64decode(vector))
    return _little_endian(numbers).tolist()


def _texts(given: object) -> tuple[str, ...]:
    listed = given if isinstance(given, list) else [given]
    if listed and all(isinstance(part, int | list) and not isinstance(part, bool) for part in listed):
        raise invalid("input", "Send texts: tokens of another tokenizer mean nothing to this model.")
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise invalid(f"input[{index}]", f"Input {index} is not a string.")
    try:
        return tuple(one.texts["text"] for one in check_inputs(listed))
    except HmiError as error:
        error.param = error.param and error.param.replace("inputs", "input", 1)
        raise


def _shown(answer: Mapping[str, Any], asked: StrictInput) -> dict[str, Any]:
    vectors = [shortened(result["embedding"], asked.dimensions) for result in answer["results"]]
    model, tokens = answer["model"], answer["usage"]["tokens"]
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": vector if asked.encoding == BASE64 else numbers_of(vector),
            }
            for index, vector in enumerate(vectors)
        ],
        "model": f"{model['name']}:{model['version']}",
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class Embeddings:
    """That of the OpenAI conventions; how many tokens each text had is not told."""

    embeds = True

    def read(self, body: Mapping[str, Any]) -> tuple[object, object]:
        asked = read_asked(body)
        return list(asked.texts), (asked.encoding, asked.dimensions)

    def body(self, results: Sequence[dict[str, Any]], model: str, how: Any) -> dict[str, Any]:
        encoding, dimensions = how
        vectors = [shortened(result["embedding"], dimensions) for result in results]
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": vector if encoding == BASE64 else numbers_of(vector),
            }
            for index, vector in enumerate(vectors)
        ]
        return {"object": "list", "data": data, "model": model}
