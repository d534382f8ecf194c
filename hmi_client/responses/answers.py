"""Answers of models."""

from dataclasses import dataclass, field

from hmi_client.responses.decoding import Json


@dataclass(frozen=True, slots=True)
class AnsweredBy:
    """The version that served a request. ``cascade``: the digest of its cascade's profile, None if that is
    part of the version. ``number_format``: what it was computed in, such as `bfloat16`."""

    name: str
    version: int
    digest: str
    cascade: str | None = None
    number_format: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An infer response. ``results`` has one object per input. Its fields depend on the model's task."""

    id: str
    model: AnsweredBy
    results: tuple[Json, ...]
    usage: Json = field(default_factory=dict)
    plot: Json = field(default_factory=dict)
    batch: Json = field(default_factory=dict)
    timings_ms: Json = field(default_factory=dict)
