"""What each inference worker says about itself, for the health page and for refusing early."""

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from redis import Redis

from inference.queueing import keys
from inference.queueing.decoding import MessageError, Reader, decode
from inference.queueing.messages import VERSION, encode

State = Literal["loading", "ready", "draining", "drained"]
SERVED_LATELY_S: Final = 60.0
"""A worker that was lost without a word is expected back for so long."""
STATES: tuple[State, ...] = ("loading", "ready", "draining", "drained")


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """One piece of work of the pipeline: ``lane`` is retrieval, adapters or compute; ``start`` and ``length``
    are milliseconds."""

    lane: str
    batch: int
    name: str
    start: float
    length: float


@dataclass(frozen=True, slots=True)
class Levels:
    """How many fragments were answered by the tables as themselves, by a part of them, by their uni-gram, or
    were computed."""

    trigram: int = 0
    bigram: int = 0
    unigram: int = 0
    computed: int = 0

    @classmethod
    def read(cls, reader: Reader) -> "Levels":
        """Raises MessageError on anything else."""
        return cls(**reader.wholes("trigram", "bigram", "unigram", "computed"))


@dataclass(frozen=True, slots=True)
class Recently:
    """The last half minute: rows computed a second, requests answered and how long they took from being sent,
    and what the pipeline did for the last batches. ``behind_per_s`` is how many requests were answered a
    second while others waited, 0.0 where none had to: that there were few to answer says nothing of how fast
    they can be."""

    rows_per_s: float = 0.0
    requests: int = 0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    spans: tuple[TracedSpan, ...] = ()
    behind_per_s: float = 0.0
    levels: Levels = Levels()

    @classmethod
    def read(cls, reader: Reader) -> "Recently":
        """Raises MessageError on anything else."""
        spans = tuple(
            TracedSpan(
                one.text("lane"), one.whole("batch"), one.text("name"), **one.numbers("start", "length")
            )
            for one in reader.children("spans")
        )
        figures = reader.numbers("rows_per_s", "p50_ms", "p95_ms", "p99_ms", "behind_per_s")
        levels = Levels.read(reader.child("levels"))
        return cls(requests=reader.whole("requests"), spans=spans, levels=levels, **figures)


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker. ``last_batch_at`` is unix seconds: of the last batch in which some row was answered, 0.0
    before the first; ``roots`` are the names of the roots that it takes requests for, ``root_digests`` their
    digests; ``revision`` is the manifest's; ``resident`` models of so many bytes are in memory, and of those
    that are ``pinned`` so many; ``waiting`` rows are taken in and in no batch yet; ``slot_mismatches`` must
    stay 0; ``host_bytes`` is the process's memory, the device's is 0 of a CPU."""

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
    v: int = VERSION

    def to_json(self) -> bytes:
        return encode(self)

    @classmethod
    def from_json(cls, payload: bytes) -> "WorkerStatus":
        """Raises MessageError on anything that is not a status."""
        reader = decode(payload, version=VERSION)
        return cls(
            name=reader.text("name"),
            state=_state(reader),
            device=reader.text("device"),
            dtype=reader.text("dtype"),
            roots=reader.texts("roots"),
            root_digests=reader.texts("root_digests"),
            last_batch_at=reader.number("last_batch_at"),
            last_error=reader.text("last_error"),
            recently=Recently.read(reader.child("recently")),
            **reader.wholes("revision", "hplms", "batches", "rows", "slot_mismatches"),
            **reader.wholes("resident", "resident_bytes", "pinned", "pinned_resident", "waiting"),
            **reader.wholes("host_bytes", "device_used_bytes", "device_total_bytes"),
        )


def _state(reader: Reader) -> State:
    word = reader.text("state")
    if word not in STATES:
        reader.fail(f"{word!r} is not a state")
    return word


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
            alive.append(WorkerStatus.from_json(payload))
    return alive


def roots_served_lately(redis: Redis) -> frozenset[str]:
    """The digests of roots that a worker serves, or served until it was lost less than SERVED_LATELY_S ago:
    whoever runs it starts it again. A worker that was stopped does not count."""
    found: Any = redis.zrange(
        keys.SERVED_ROOTS, time.time() - SERVED_LATELY_S, "+inf", byscore=True, withscores=False
    )
    return frozenset(digest.decode() for digest in found)
