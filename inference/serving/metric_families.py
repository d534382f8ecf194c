"""The metrics of the inference worker, by what they tell of. Names and units are Prometheus' own kind."""

import time
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from heapq import nlargest
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from inference.cascade.dispatcher import Coverage, Level
from inference.engine.rows import Answered, Failed, Outcome, StageSeconds
from inference.queueing.messages import InferReply, InferRequest

Key = TypeVar("Key", bound=Hashable)

OTHER = "other"
REVIEW_S = 60.0


class Busiest(Generic[Key]):
    """Which names have time series of their own: at most ``limit``, those that were counted most recently.

    A name that loses its place to a busier one loses its series; when it comes back they begin at zero, which
    Prometheus reads as the reset of a counter. What is counted in between belongs to ``other`` and stays
    there, so that no series ever falls and nothing is counted twice.
    """

    def __init__(self, limit: int, *, other: Key, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._other = other
        self._clock = clock
        self._named: set[Key] = set()
        self._recent: dict[Key, float] = {}
        self._next_review = clock() + REVIEW_S

    def label(self, name: Key) -> Key:
        """What the name is counted under now: itself, or ``other``."""
        return name if name in self._named else self._other

    def note(self, counts: Mapping[Key, int]) -> set[Key]:
        """Take new counts, and give free places to new names. Returns those that have just lost theirs."""
        # The series of all others is never to be dropped, so a name that is theirs can have no place.
        new = {name: count for name, count in counts.items() if name != self._other}
        for name, count in new.items():
            self._recent[name] = self._recent.get(name, 0.0) + count
        gone = self._review() if self._clock() >= self._next_review else set()
        for name in new:
            if len(self._named) < self._limit:
                self._named.add(name)
        return gone

    def _review(self) -> set[Key]:
        """Halve the counts and give the places to the highest ones; among equals, to those that have one."""
        recent, before = self._recent, self._named
        rank = {name: (recent.get(name, 0.0), name in before) for name in {*recent, *before}}
        self._named = set(nlargest(self._limit, rank, key=rank.__getitem__))
        self._recent = {name: count / 2 for name, count in recent.items() if count >= 2}
        self._next_review = self._clock() + REVIEW_S
        return before - self._named


Place = tuple[str, str]
"""Names of a root and of the nearest domain below it."""

STAGES = tuple(field.name for field in fields(StageSeconds))
FRAGMENT_LEVELS = ("trigram", "bigram", "unigram")
ROW_LEVELS = ("table", "escalated", "full")
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
FRESH_KEPT = 1024
"""Of models that were loaded and not yet used, so many are remembered: a batch that is given up uses none."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Batches:
    """Batches, and the rows and tokens in them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "hmi_worker_batch_seconds",
            "Time of a batch's turn, without what was done ahead of it",
            buckets=SECONDS,
            registry=registry,
        )
        self._stages = Histogram(
            "hmi_worker_stage_seconds",
            "Time of each stage of a batch",
            ["stage"],
            buckets=SECONDS,
            registry=registry,
        )
        self._sizes = Histogram("hmi_worker_batch_rows", "Rows in a batch", buckets=SIZES, registry=registry)
        self._mixes = Histogram(
            "hmi_worker_batch_tenants", "Tenants that share a batch", buckets=SIZES, registry=registry
        )
        self._rows = Counter("hmi_worker_rows", "Rows computed, by outcome", ["code"], registry=registry)
        self._tokens = Counter("hmi_worker_tokens", "Tokens of rows in batches", registry=registry)
        self._last = Gauge(
            "hmi_worker_last_batch_timestamp_seconds",
            "Unix time of the last batch with an answer; 0 before the first",
            registry=registry,
        )
        for stage in STAGES:
            self._stages.labels(stage)

    def count(self, outcomes: Sequence[Outcome], seconds: float, ended: float) -> None:
        """One batch, at least one row."""
        lengths = [len(outcome.row) for outcome in outcomes]
        self._seconds.observe(seconds)
        self._sizes.observe(len(outcomes))
        self._mixes.observe(len({outcome.row.model.tenant for outcome in outcomes}))
        self._tokens.inc(sum(lengths))
        codes = Tally(outcome.code if isinstance(outcome, Failed) else "ok" for outcome in outcomes)
        for code, rows in codes.items():
            self._rows.labels(code).inc(rows)
        shares = [outcome.seconds for outcome in outcomes if isinstance(outcome, Answered)]
        if shares:  # a batch without an answer proves nothing
            self._last.set(ended)
            self._count_stages(sum(shares, StageSeconds()))

    def _count_stages(self, seconds: StageSeconds) -> None:
        for stage in STAGES:
            self._stages.labels(stage).observe(getattr(seconds, stage))


class Requests:
    """Requests that got their answer, whatever it says."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter(
            "hmi_worker_requests", "Requests answered, by code", ["code"], registry=registry
        )
        self._queue = Histogram(
            "hmi_worker_request_queue_seconds",
            "Time from acceptance to the first batch, of requests answered with a result",
            buckets=SECONDS,
            registry=registry,
        )
        self._total = Histogram(
            "hmi_worker_request_seconds",
            "Time from acceptance to the answer",
            buckets=SECONDS,
            registry=registry,
        )

    def count(self, request: InferRequest, reply: InferReply, now: float) -> None:
        """One request."""
        self._answers.labels(reply.error.code if reply.error else "ok").inc()
        self._total.observe(max(0.0, now - request.enqueued_at))
        if reply.ok:
            self._queue.observe(reply.timings_ms.queue / 1000)


class GenerationSteps:
    """Steps of the generative models."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "hmi_worker_generation_step_seconds",
            "Time of a step: a token of each sequence that runs, and parts of prompts",
            buckets=SECONDS,
            registry=registry,
        )

    def count(self, seconds: float) -> None:
        """One step."""
        self._seconds.observe(seconds)


class Adapters:
    """Models that batches needed: there already, or loaded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._hits = Counter(
            "hmi_worker_adapter_hits", "Models that a batch used and that were in memory", registry=registry
        )
        self._failures = Counter(
            "hmi_worker_adapter_load_failures", "Models that could not be loaded", registry=registry
        )
        self._loads = Histogram(
            "hmi_worker_adapter_load_seconds",
            "Time to load a model from disk",
            buckets=SECONDS,
            registry=registry,
        )
        self._fresh: OrderedDict[str, None] = OrderedDict()

    def loaded(self, digest: str, seconds: float) -> None:
        """One was loaded, for a batch to come or under way."""
        self._fresh[digest] = None
        if len(self._fresh) > FRESH_KEPT:
            self._fresh.popitem(last=False)
        self._loads.observe(seconds)

    def failed(self) -> None:
        """One could not be loaded."""
        self._failures.inc()

    def count(self, outcomes: Iterable[Outcome]) -> None:
        """Count one batch. The first use of a loaded model is no hit."""
        used = {outcome.used.digest for outcome in outcomes if isinstance(outcome, Answered)}
        self._hits.inc(len(used - self._fresh.keys()))
        for digest in used:
            self._fresh.pop(digest, None)


class Levels:
    """At which level rows were answered, and how the tables answered their fragments, by the place in the
    tree whose tables were asked. A row that goes on from the tables counts as escalated, and as full when it
    was computed."""

    def __init__(self, registry: CollectorRegistry, limit: int, clock: Callable[[], float]) -> None:
        self._busiest: Busiest[Place] = Busiest(limit, other=(OTHER, OTHER), clock=clock)
        self._fragments = Counter(
            "hmi_worker_fragments",
            "Fragments looked up, by what the tables had",
            ["root", "domain", "level"],
            registry=registry,
        )
        self._rows = Counter(
            "hmi_worker_level_rows", "Rows answered, by level", ["root", "domain", "level"], registry=registry
        )

    def count(self, places: dict[Place, list[Answered]]) -> None:
        """The rows of one batch, by place."""
        for root, domain in self._busiest.note({place: len(rows) for place, rows in places.items()}):
            for family in (self._fragments, self._rows):
                family.remove_by_labels({"root": root, "domain": domain})
        for place, rows in places.items():
            names = self._busiest.label(place)
            found = sum((row.coverage for row in rows), Coverage())
            for level, count in zip(FRAGMENT_LEVELS, astuple(found), strict=True):
                self._fragments.labels(*names, level).inc(count)
            levels = Tally(_level_of(row) for row in rows)
            for level in ROW_LEVELS:
                self._rows.labels(*names, level).inc(levels[level])


class Tenants:
    """What each of the busiest tenants asks for."""

    def __init__(self, registry: CollectorRegistry, limit: int, clock: Callable[[], float]) -> None:
        self._busiest: Busiest[str] = Busiest(limit, other=OTHER, clock=clock)
        self._rows = Counter("hmi_worker_tenant_rows", "Rows, by tenant", ["tenant"], registry=registry)
        self._tokens = Counter("hmi_worker_tenant_tokens", "Tokens, by tenant", ["tenant"], registry=registry)
        self._failed = Counter(
            "hmi_worker_tenant_failed_rows",
            "Rows without an answer, by tenant",
            ["tenant"],
            registry=registry,
        )

    def count(self, outcomes: Sequence[Outcome]) -> None:
        """One batch."""
        rows: Tally[str] = Tally()
        tokens: Tally[str] = Tally()
        failed: Tally[str] = Tally()
        for outcome in outcomes:
            tenant = outcome.row.model.tenant
            rows[tenant] += 1
            tokens[tenant] += len(outcome.row)
            failed[tenant] += isinstance(outcome, Failed)
        for gone in self._busiest.note(rows):
            for family in (self._rows, self._tokens, self._failed):
                family.remove(gone)
        for family, counts in ((self._rows, rows), (self._tokens, tokens), (self._failed, failed)):
            for tenant, count in counts.items():
                family.labels(self._busiest.label(tenant)).inc(count)


def _level_of(row: Answered) -> str:
    if row.row.level is Level.FULL:
        return "full"
    return "escalated" if row.escalates else "table"
