"""What crosses between the edge (web process, batch worker) and the inference worker: msgspec Structs as
MessagePack. Token ids go in and numbers come back: the worker knows no texts and no labels."""

from math import isfinite
from typing import Final, Self

import msgspec
from msgspec import Struct

from inference.cascade.dispatcher import HASH_BYTES, Dispatcher, Level
from inference.errors import HplmError
from inference.generation.requests import FinishReason, SamplingParams

VERSION: Final = 10
CALL_END: Final = "."
"""Stands in an id between the name of the call and what makes it unique."""
ID_BYTES: Final = 4
"""Of a token id, and of a position, in a message: int32, little-endian."""


class MessageError(ValueError):
    """A message that cannot be read. ``request_id`` and ``reply_to`` are "" where those cannot either."""

    def __init__(self, message: str, *, request_id: str = "", reply_to: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id
        self.reply_to = reply_to


class ModelRef(Struct, frozen=True):
    """The exact version of a model that a request resolved to."""

    tenant: str
    hplm: str
    version: int
    digest: str


class TokenSequence(Struct, frozen=True, array_like=True):
    """One text, pair of texts, or window of a long text, as T tokens with the special ones.

    ids: T int32. types: T uint8, or nothing where each is 0. outputs_at: int32 positions of the tokens whose
    outputs are asked for, of a task with outputs for each token; None: all there are. text_hash: 8 bytes that
    depend on the whole input alone, the same for each of its windows and for every model; b"": not known.
    """

    ids: bytes
    types: bytes = b""
    outputs_at: bytes | None = None
    text_hash: bytes = b""

    def __post_init__(self) -> None:
        if not self.ids or len(self.ids) % ID_BYTES or len(self.outputs_at or b"") % ID_BYTES:
            raise ValueError("the ids and positions of tokens have 4 bytes each, and there is at least one")
        if self.types and len(self.types) != len(self):
            raise ValueError(f"{len(self.types)} types for {len(self)} tokens")
        if len(self.text_hash) not in (0, HASH_BYTES):
            raise ValueError(f"a text hash has {HASH_BYTES} bytes")

    def __len__(self) -> int:
        return len(self.ids) // ID_BYTES


class _Message(Struct, frozen=True, kw_only=True):
    """A message of this version."""

    v: int = VERSION

    def __post_init__(self) -> None:
        if self.v != VERSION:
            raise ValueError(f"version {self.v} is not version {VERSION}")

    def encode(self) -> bytes:
        """As MessagePack."""
        return _encoder.encode(self)


class InferRequest(_Message, frozen=True, kw_only=True):
    """Token sequences for one version of one model, and the digest of the root whose tokenizer read them.

    id: unique for ever: replies are matched by it. deadline, enqueued_at: unix seconds.
    level: of every sequence (1: the tables, 2: in full). dispatcher: decides which answers from the tables go
    on to level 2; None: none does. explain: how each token was made is asked for. embed: the embedding is
    asked for in place of the head's outputs. generate: how the one sequence, a prompt, is to be continued;
    its tokens are sent as they come, and the reply behind them.
    """

    id: str
    tenant: str
    hplm: str
    version: int
    digest: str
    root: str
    sequences: tuple[TokenSequence, ...]
    deadline: float
    enqueued_at: float
    reply_to: str
    level: Level = Level.TABLE
    dispatcher: Dispatcher | None = None
    explain: bool = False
    embed: bool = False
    generate: SamplingParams | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sequences:
            raise ValueError("sequences is empty")
        if self.generate is not None and len(self.sequences) > 1:
            raise ValueError("one prompt is continued by a request")
        if not isfinite(self.deadline) or not isfinite(self.enqueued_at):
            raise ValueError("deadline and enqueued_at must be finite")

    @property
    def call(self) -> str:
        """The caller's name of it, unique among the outstanding requests of its tenant."""
        return self.id.partition(CALL_END)[0]

    @property
    def model(self) -> ModelRef:
        return ModelRef(self.tenant, self.hplm, self.version, self.digest)

    @property
    def tokens(self) -> int:
        """Of all sequences."""
        return sum(map(len, self.sequences))

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises MessageError, which names the request and its reply stream as far as they could be read."""
        try:
            return _requests.decode(payload)  # type: ignore[return-value]
        except (msgspec.MsgspecError, ValueError, RecursionError, HplmError) as error:
            raise _unreadable(payload, error) from error


class TimingsMs(Struct, frozen=True):
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


class PlotCounts(Struct, frozen=True):
    """How the tables answered the request's fragments: as themselves (``trigram``, whatever the root's n), by
    a part of them, or by their uni-gram. Those of texts that were computed without a lookup do not count."""

    trigram: int = 0
    bigram: int = 0
    unigram: int = 0


class BatchInfo(Struct, frozen=True):
    """The largest batch a sequence of the request travelled in."""

    rows: int = 0
    tenants: int = 0


class ReplyError(Struct, frozen=True):
    """Why there is no result: a code of the product's error table and a sentence for the user."""

    code: str
    message: str


class SequenceOutput(Struct, frozen=True, array_like=True):
    """The outputs for one sequence.

    values: little-endian fp32: C outputs of the head, or C for each token that was asked for; or the
    numbers of an embedding. token_levels: T uint8, how each token was made, where that was asked for. level:
    at which it was answered. from_tables: of a sequence that went on to level 2, the outputs of level 1.
    """

    values: bytes
    token_levels: bytes = b""
    level: Level = Level.TABLE
    from_tables: bytes = b""


class GeneratedToken(_Message, frozen=True, kw_only=True, array_like=True):
    """A token of a completion; the fields are those of `TokenEvent`. number_format: of the first token of
    each worker alone. busy_ms: what it took the worker since the token before."""

    index: int
    token: int
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()
    number_format: str = ""
    busy_ms: float = 0.0

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises MessageError on anything that is not a token."""
        try:
            return _tokens.decode(payload)  # type: ignore[return-value]
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise MessageError(str(error)) from error


class CompletionEnd(Struct, frozen=True):
    """Why a completion ended, and after how many tokens."""

    finish_reason: FinishReason
    tokens: int


class InferReply(_Message, frozen=True, kw_only=True):
    """The one terminal answer to a request: one output per sequence, the end of a completion, or an error.
    number_format: that of the root, as `Root.number_format` names it; "" of an error, and of a completion,
    whose tokens name it."""

    id: str
    ok: bool
    model: ModelRef
    number_format: str = ""
    outputs: tuple[SequenceOutput, ...] = ()
    timings_ms: TimingsMs = TimingsMs()
    plot: PlotCounts = PlotCounts()
    batch: BatchInfo = BatchInfo()
    error: ReplyError | None = None
    completion: CompletionEnd | None = None

    @classmethod
    def failure(cls, request_id: str, model: ModelRef, code: str, message: str) -> "InferReply":
        return cls(id=request_id, ok=False, model=model, error=ReplyError(code, message))

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises MessageError on anything that is not a reply."""
        try:
            return _replies.decode(payload)  # type: ignore[return-value]
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise _unreadable(payload, error) from error


class _Sender(Struct):
    """The fields that name the sender of a message."""

    id: str = ""
    reply_to: str = ""


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(InferRequest)
_replies = msgspec.msgpack.Decoder(InferReply)
_tokens = msgspec.msgpack.Decoder(GeneratedToken)
_senders = msgspec.msgpack.Decoder(_Sender)


def _unreadable(payload: bytes, error: Exception) -> MessageError:
    try:
        sender = _senders.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        sender = _Sender()
    return MessageError(str(error), request_id=sender.id, reply_to=sender.reply_to)
