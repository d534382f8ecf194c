"""The status of each inference worker, for the health page and for admission."""

import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final, Literal, Self, get_args

import msgspec
from msgspec import Struct
from redis import Redis

from inference.queueing import keys
from inference.queueing.messages import VERSION, MessageError

State = Literal["loading", "ready", "draining", "drained"]
STATES: Final[tuple[State, ...]] = get_args(State)
SERVED_LATELY_S: Final = 60.0
"""A worker that was lost without a word is expected back for so long."""


class TracedSpan(Struct, frozen=True):
    """One piece of work of the pipeline: ``stage`` is retrieval, adapters or compute; ``start`` and
    ``length`` are milliseconds."""

    stage: str
    batch: int
    name: str
    start: float
    length: float


class Levels(Struct, frozen=True):
    """How many fragments the tables answered as themselves, by a part of them, or by their uni-gram; and how
    many rows were answered by the tables, went on from there to the level FULL, and were computed there."""

    trigram: int = 0
    bigram: int = 0
    unigram: int = 0
    table_rows: int = 0
    escalated_rows: int = 0
    full_rows: int = 0


class Recently(Struct, frozen=True):
    """The last half minute: rows computed a second, requests answered and how long they took from being sent,
    and what the pipeline did for the last batches. ``behind_per_s`` is how many requests were answered a
    second while others waited, ``behind_tokens_per_s`` how many tokens they had; 0.0 where none had to wait:
    that there were few to answer says nothing of how fast they can be."""

    rows_per_s: float = 0.0
    requests: int = 0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    spans: tuple[TracedSpan, ...] = ()
    behind_per_s: float = 0.0
    behind_tokens_per_s: float = 0.0
    levels: Levels = Levels()


class RecentlyGenerated(Struct, frozen=True):
    """Generation in the last half minute: completions that ended without an error, tokens a second, and how
    long the first tokens took from the completions' being sent."""

    completions: int = 0
    tokens_per_s: float = 0.0
    first_token_p50_ms: float = 0.0
    first_token_p95_ms: float = 0.0


class DecoderStatus(Struct, frozen=True):
    """A decoder root of a worker, by its name. So many completions are being computed, and so many wait for a
    place. Its key-value cache has ``blocks`` of ``block_size`` tokens, of which ``used_blocks`` belong to
    completions under way, and ``cached_blocks`` are kept for prompts that begin alike. ``generated_tokens``,
    ``preemptions`` and ``completions``, which ended without an error, count since its start."""

    name: str
    running: int = 0
    waiting: int = 0
    blocks: int = 0
    block_size: int = 0
    used_blocks: int = 0
    cached_blocks: int = 0
    generated_tokens: int = 0
    preemptions: int = 0
    completions: int = 0


class WorkerStatus(Struct, frozen=True):
    """One worker. ``last_batch_at`` is unix seconds: of the last batch in which some row was answered, 0.0
    before the first; ``roots`` are the names of the roots that it takes requests for, ``root_digests`` their
    digests, ``missing_roots`` and ``missing_root_digests`` are those that it should serve and could not load;
    ``revision`` is the manifest's; ``resident`` models of so many bytes are in memory, and of those
    that are ``pinned`` so many; ``waiting`` rows are taken in and in no batch yet; ``slot_mismatches`` must
    stay 0; ``host_bytes`` is the process's memory, the device's is 0 of a CPU. ``decoders``: roots that
    write, whose figures together are ``generated``."""

    name: str
    state: State
    device: str
    dtype: str
    roots: tuple[str, ...] = ()
    root_digests: tuple[str, ...] = ()
    revision: int = 0
    hplms: int = 0
    last_batch_at: float = 0.0
    last_error: str = ""
    batches: int = 0
    rows: int = 0
    slot_mismatches: int = 0
    resident: int = 0
    resident_bytes: int = 0
    pinned: int = 0
    pinned_resident: int = 0
    waiting: int = 0
    host_bytes: int = 0
    device_used_bytes: int = 0
    device_total_bytes: int = 0
    recently: Recently = Recently()
    decoders: tuple[DecoderStatus, ...] = ()
    missing_roots: tuple[str, ...] = ()
    missing_root_digests: tuple[str, ...] = ()
    generated: RecentlyGenerated = RecentlyGenerated()
    v: int = VERSION

    def __post_init__(self) -> None:
        if self.v != VERSION:
            raise ValueError(f"version {self.v} is not version {VERSION}")

    def encode(self) -> bytes:
        """As JSON, which those who look into Redis can read."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises MessageError on anything that is not a status."""
        try:
            return msgspec.json.decode(payload, type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise MessageError(str(error)) from error


def workers_alive(redis: Redis) -> list[WorkerStatus]:
    """Every worker with a heartbeat, by name, those that are still loading among them. Empty when none is
    running."""
    known: Any = redis.smembers(keys.WORKERS)
    names = sorted(name.decode() for name in known)
    if not names:
        return []
    found: Any = redis.mget([keys.worker(name) for name in names])
    dead = [name for name, payload in zip(names, found, strict=True) if payload is None]
    if dead:
        redis.srem(keys.WORKERS, *dead)  # one that only seemed dead is back with its next beat
    alive = []
    for payload in filter(None, found):
        with suppress(MessageError):
            alive.append(WorkerStatus.decode(payload))
    return alive


def roots_served_lately(redis: Redis) -> frozenset[str]:
    """The digests of roots that a worker serves, or served until it was lost less than SERVED_LATELY_S ago:
    its supervisor starts it again. A worker that was stopped does not count."""
    found: Any = redis.zrange(
        keys.SERVED_ROOTS, time.time() - SERVED_LATELY_S, "+inf", byscore=True, withscores=False
    )
    return frozenset(digest.decode() for digest in found)


def expect_no_worker(redis: Redis, roots: Collection[str]) -> None:
    """Let requests for these roots, by digest, wait for no worker that was lost. A worker that serves one
    says so again with its next beat."""
    if roots:
        redis.zrem(keys.SERVED_ROOTS, *roots)
