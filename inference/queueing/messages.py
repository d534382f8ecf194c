"""What crosses between the web process and the inference worker: frozen dataclasses as JSON."""

import json
from dataclasses import dataclass, field, fields
from typing import Any

from inference.queueing.decoding import MessageError, Reader, decode

__all__ = [
    "BatchInfo",
    "InferInput",
    "InferReply",
    "InferRequest",
    "MessageError",
    "ModelRef",
    "PlotCounts",
    "ReplyError",
    "by_name",
]

VERSION = 5
CALL_END = "."
"""Stands in an id between the name of the call and what makes it unique."""
MISS_POLICIES = ("fallback", "compute", "auto")


def encode(message: Any) -> bytes:
    """ASCII JSON, so that a lone surrogate survives the trip and fails where it can be named."""
    return json.dumps(message, default=by_name, separators=(",", ":"), allow_nan=False).encode("ascii")


def by_name(part: Any) -> dict[str, Any]:
    """The fields of a message, or of a part of one, as they are."""
    return {own.name: getattr(part, own.name) for own in fields(part)}


@dataclass(frozen=True, slots=True)
class ModelRef:
    """The exact version of a model that a request resolved to."""

    tenant: str
    hplm: str
    version: int
    digest: str

    @classmethod
    def read(cls, reader: Reader) -> "ModelRef":
        return cls(
            tenant=reader.text("tenant"),
            hplm=reader.text("hplm"),
            version=reader.whole("version"),
            digest=reader.text("digest"),
        )


@dataclass(frozen=True, slots=True)
class InferInput:
    """One input: a text, or a pair of texts. Of a question answering, the question and its context."""

    text: str
    text_pair: str | None = None

    @classmethod
    def read(cls, reader: Reader) -> "InferInput":
        return cls(reader.text("text"), reader.text_or_none("text_pair"))


@dataclass(frozen=True, slots=True)
class InferRequest:
    """Inputs for one version of one model, and the digest of the root that it is computed with. ``id`` is
    nobody else's, now or later: an answer is known by it.
    ``deadline`` and ``enqueued_at`` are unix seconds; ``miss_policy`` replaces the worker's own for this
    request; with ``explain`` each result says how each of its tokens was made; with ``embed`` it is the mean
    of the text's final states in place of what the head says."""

    id: str
    tenant: str
    hplm: str
    version: int
    digest: str
    root: str
    inputs: tuple[InferInput, ...]
    deadline: float
    enqueued_at: float
    reply_to: str
    miss_policy: str | None = None
    explain: bool = False
    embed: bool = False
    v: int = VERSION

    @property
    def call(self) -> str:
        """What the caller knows it by, unique among what its tenant has outstanding."""
        return self.id.partition(CALL_END)[0]

    @property
    def model(self) -> ModelRef:
        return ModelRef(self.tenant, self.hplm, self.version, self.digest)

    def to_json(self) -> bytes:
        return encode(self)

    @classmethod
    def from_json(cls, payload: bytes) -> "InferRequest":
        """Raises MessageError, which names the request and its reply stream as far as they could be read."""
        reader = decode(payload, version=VERSION)
        model = ModelRef.read(reader)
        inputs = tuple(InferInput.read(item) for item in reader.children("inputs"))
        if not inputs:
            reader.fail("inputs is empty")
        return cls(
            id=reader.text("id"),
            tenant=model.tenant,
            hplm=model.hplm,
            version=model.version,
            digest=model.digest,
            root=reader.text("root"),
            inputs=inputs,
            deadline=reader.number("deadline"),
            enqueued_at=reader.number("enqueued_at"),
            reply_to=reader.text("reply_to"),
            miss_policy=reader.text_or_none("miss_policy"),
            explain=reader.flag("explain"),
            embed=reader.flag("embed"),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request used: inputs, tokens that were answered, inputs that were cut to the root's maximum."""

    inputs: int = 0
    tokens: int = 0
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class TimingsMs:
    """Milliseconds. ``queue`` and ``total`` are waited time; the stages are this request's share of the
    batches it travelled in, so that they add up to the worker's busy time over all requests."""

    queue: float = 0.0
    retrieval: float = 0.0
    adapter_load: float = 0.0
    compute: float = 0.0
    total: float = 0.0

    @property
    def busy(self) -> float:
        """For how long the inference worker was busy with it."""
        return self.retrieval + self.adapter_load + self.compute


@dataclass(frozen=True, slots=True)
class PlotCounts:
    """How the request's fragments were answered: by the tables, as themselves (``trigram``, whatever the
    root's n), by a part of them, by their uni-gram; or computed. ``whole_rows`` counts inputs whose lower
    layers were computed in one piece, without fragments."""

    trigram: int = 0
    bigram: int = 0
    unigram: int = 0
    computed: int = 0
    whole_rows: int = 0


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """The largest batch a row of the request travelled in."""

    rows: int = 0
    tenants: int = 0


@dataclass(frozen=True, slots=True)
class ReplyError:
    """Why there is no result: a code of the product's error table and a sentence for the user."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class InferReply:
    """The one terminal answer to a request: one result per input, or an error."""

    id: str
    ok: bool
    model: ModelRef
    results: tuple[dict[str, Any], ...] = ()
    usage: Usage = field(default_factory=Usage)
    timings_ms: TimingsMs = field(default_factory=TimingsMs)
    plot: PlotCounts = field(default_factory=PlotCounts)
    batch: BatchInfo = field(default_factory=BatchInfo)
    error: ReplyError | None = None
    v: int = VERSION

    @classmethod
    def failure(cls, request_id: str, model: ModelRef, code: str, message: str) -> "InferReply":
        return cls(id=request_id, ok=False, model=model, error=ReplyError(code, message))

    def to_json(self) -> bytes:
        return encode(self)

    @classmethod
    def from_json(cls, payload: bytes) -> "InferReply":
        """Raises MessageError on anything that is not a reply."""
        reader = decode(payload, version=VERSION)
        error = reader.child_or_none("error")
        return cls(
            id=reader.text("id"),
            ok=reader.flag("ok"),
            model=ModelRef.read(reader.child("model")),
            results=reader.objects("results"),
            usage=Usage(**reader.child("usage").wholes("inputs", "tokens", "truncated")),
            timings_ms=TimingsMs(
                **reader.child("timings_ms").numbers("queue", "retrieval", "adapter_load", "compute", "total")
            ),
            plot=PlotCounts(
                **reader.child("plot").wholes("trigram", "bigram", "unigram", "computed", "whole_rows")
            ),
            batch=BatchInfo(**reader.child("batch").wholes("rows", "tenants")),
            error=None if error is None else ReplyError(error.text("code"), error.text("message")),
        )
