"""The answers of the infer API: their JSON values as types, of which the OpenAPI schema is made, and their
headers."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from drf_spectacular.utils import OpenApiParameter
from msgspec import Meta

from inference.number_format import format_number
from tenants.base.errors import ErrorCode


def any_of(*types: type) -> Meta:
    """The constraint of a value that has one of these types, each of them a component of the schema."""
    references = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in types]
    return Meta(extra_json_schema={"anyOf": references}, extra={COMPONENTS: types})


COMPONENTS: Final = "components"
"""In the ``extra`` of a constraint: the types that its schema refers to."""


class AnsweredBy(TypedDict):
    """Which version answered."""

    name: str
    version: int
    digest: str
    cascade: NotRequired[
        Annotated[
            str,
            Meta(description="The digest of its cascade's profile; absent if that is part of the version."),
        ]
    ]
    number_format: Annotated[
        str, Meta(description="What it was computed in: `bfloat16`, `float16` or `float32`.")
    ]


class Token(TypedDict):
    """Characters `start` to `end` of one of the input's texts, and what the tables gave for the fragment
    around them."""

    of: Literal["text", "text_pair", "question", "context"]
    start: int
    end: int
    level: Literal["trigram", "bigram", "unigram", "computed"]


class Result(TypedDict):
    """Fields of every result."""

    truncated: Annotated[bool, Meta(description="Whether the text was too long and was truncated.")]
    level: Annotated[
        Literal["table", "full"], Meta(description="Answered from the tables, or computed in full.")
    ]
    confidence: NotRequired[
        Annotated[
            float,
            Meta(description="The calibrated probability that the answer is right; numbers have none."),
        ]
    ]
    table: NotRequired[
        Annotated[
            dict[str, Any],
            Meta(description="The answer from the tables, for a text that was then computed in full."),
        ]
    ]
    tokens: NotRequired[Annotated[list[Token], Meta(description="Only if the request sets `explain`.")]]


class ClassResult(Result):
    """Text classification: the most likely label, and the probability of each."""

    label: str
    scores: dict[str, float]


class LabelSetResult(Result):
    """Multi-label classification: the labels above the model's threshold, and the probability of each."""

    labels: list[str]
    scores: dict[str, float]


class ValueResult(Result):
    """Regression: a number in the units of the training data."""

    value: float


class Span(TypedDict):
    """Characters `start` to `end` of the text, which read `text`."""

    start: int
    end: int
    text: str
    label: str
    score: float


class TagResult(Result):
    """Token tagging: the spans found."""

    spans: list[Span]


class AnswerResult(Result):
    """Question answering: characters `start` to `end` of the context, which read `answer`; "" when the
    context does not say."""

    answer: str
    start: int
    end: int
    score: float


class Usage(TypedDict):
    """What the request used."""

    inputs: int
    tokens: int
    truncated: int


class Plot(TypedDict):
    """How the fragments were looked up."""

    trigram: Annotated[int, Meta(description="Fragments found whole in the tables.")]
    bigram: Annotated[int, Meta(description="Fragments found by a shorter part.")]
    unigram: Annotated[int, Meta(description="Fragments found by their token alone.")]
    hit_ratio: Annotated[
        float | None,
        Meta(description="`trigram` as a share of all fragments; null where there are none."),
    ]


class InferBatch(TypedDict):
    """The largest batch that included the request."""

    rows: int
    tenants: int


class Timings(TypedDict):
    """Milliseconds."""

    queue: float
    retrieval: float
    adapter_load: float
    compute: float
    total: float


class InferAnswer(TypedDict):
    """The response to an infer request."""

    id: str
    model: AnsweredBy
    results: list[
        Annotated[dict[str, Any], any_of(ClassResult, LabelSetResult, ValueResult, TagResult, AnswerResult)]
    ]
    usage: Usage
    plot: Plot
    batch: InferBatch
    timings_ms: Timings


class ErrorDetail(TypedDict):
    """An error: its type, a code for programs, a message for people, and the field at fault."""

    type: str
    code: ErrorCode
    message: str
    param: str | None
    details: NotRequired[dict[str, Any]]


class Error(TypedDict):
    """An error response. 429 and 503 have a Retry-After header."""

    error: ErrorDetail


MODEL: Final = "x-hmi-model"
DIGEST: Final = "x-hmi-digest"
CASCADE: Final = "x-hmi-cascade"
NUMBER_FORMAT: Final = "x-hmi-number-format"
HIT_RATIO: Final = "x-hmi-plot-hit-ratio"
TIMES: Final = "Server-Timing"

HEADER_DESCRIPTIONS: Final = {
    MODEL: "The version that answered: `tenant/model:version`.",
    DIGEST: "Its digest.",
    CASCADE: "The digest of its cascade's profile; absent if that is part of the version.",
    NUMBER_FORMAT: "What it was computed in, such as `bfloat16`.",
    HIT_RATIO: "The share of fragments that the tables held whole; absent if no fragment was looked up.",
    TIMES: "Milliseconds by stage, as in `timings_ms`: `queue;dur=9.4, retrieval;dur=1.4`.",
}
HEADER_PARAMETERS: Final = [
    OpenApiParameter(name, location=OpenApiParameter.HEADER, description=description, response=[200])
    for name, description in HEADER_DESCRIPTIONS.items()
]


def answer_headers(answer: Mapping[str, Any]) -> dict[str, str]:
    """The response headers of an answer of `infer`, also of one kept under an idempotency key."""
    model, ratio = answer["model"], answer["plot"].get("hit_ratio")
    headers = {
        MODEL: f"{model['name']}:{model['version']}",
        DIGEST: model["digest"],
        TIMES: ", ".join(
            f"{stage};dur={format_number(spent)}" for stage, spent in answer["timings_ms"].items()
        ),
    }
    optional = {
        CASCADE: model.get("cascade"),
        NUMBER_FORMAT: model.get("number_format"),
        HIT_RATIO: ratio,
    }
    return headers | {name: str(value) for name, value in optional.items() if value is not None}
