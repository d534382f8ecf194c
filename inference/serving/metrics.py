"""Prometheus metrics of the inference worker. The loop calls two methods; the rest is read at each scrape."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inference.engine.rows import Answered, ModelIdentity, Outcome
from inference.generation.scheduler import GenerationCounts
from inference.manifest import Manifest
from inference.queueing.messages import InferReply, InferRequest
from inference.serving.metric_families import (
    Adapters,
    Batches,
    GenerationSteps,
    Levels,
    Place,
    Requests,
    Tenants,
)

Held = TypeVar("Held")
DIGITS = 12
COUNTED: Final = (
    ("hmi_worker_completions", "Completions that ended without an error", "completions"),
    ("hmi_worker_generated_tokens", "Tokens generated", "generated_tokens"),
    (
        "hmi_worker_generation_computed_tokens",
        "Tokens of prompts and completions computed",
        "computed_tokens",
    ),
    ("hmi_worker_kv_found_tokens", "Tokens found in the key-value cache instead of computed", "found_tokens"),
    ("hmi_worker_preemptions", "Completions that had to wait again, for blocks or places", "preemptions"),
)
"""Counters of `GenerationCounts`: name, help and field."""

disable_created_metrics()  # type: ignore[no-untyped-call] # they double the series, and nobody asks them


@dataclass(frozen=True, slots=True)
class GaugeValues:
    """The worker's gauges at one moment. ``slot_mismatches`` counts since the start and must stay 0.
    ``decoders``: by the names of their roots."""

    resident_hplms: int
    resident_bytes: int
    backlog_rows: int
    slot_mismatches: int
    decoders: Mapping[str, GenerationCounts] = field(default_factory=dict)


class WorkerMetrics:
    """Everything the worker counts, in a registry of its own.

    One thread calls ``batch_computed``; any may call the other methods and ``timed_load``'s loader. The
    threads of the exporter call ``gauges``. ``place`` names the root and the domain behind a row's chain.
    ``names`` is how many tenants, and how many places, have series of their own.
    """

    def __init__(
        self,
        gauges: Callable[[], GaugeValues],
        *,
        place: Callable[[str], Place],
        names: int = 50,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry = CollectorRegistry()
        self._place = place
        self._batches = Batches(self.registry)
        self._requests = Requests(self.registry)
        self._adapters = Adapters(self.registry)
        self._generation_steps = GenerationSteps(self.registry)
        self._levels = Levels(self.registry, names, clock)
        self._tenants = Tenants(self.registry, names, clock)
        self.registry.register(_Gauges(gauges))
        ProcessCollector(registry=self.registry)

    def batch_computed(self, outcomes: Sequence[Outcome], *, seconds: float, ended: float) -> None:
        """Count a batch of at least one row, which took so many seconds and ended at this unix time."""
        self._batches.count(outcomes, seconds, ended)
        self._adapters.count(outcomes)
        self._tenants.count(outcomes)
        self._levels.count(self._by_place(outcomes))

    def requests_answered(self, answered: Iterable[tuple[InferRequest, InferReply]], *, now: float) -> None:
        """Requests that have their one answer, computed or refused, at unix time ``now``."""
        for request, reply in answered:
            self._requests.count(request, reply, now)

    def step_computed(self, *, seconds: float) -> None:
        """A step of the generative models of one root, which took so long."""
        self._generation_steps.count(seconds)

    def timed_load(self, load: Callable[[ModelIdentity], Held]) -> Callable[[ModelIdentity], Held]:
        """The same loader, counted and timed."""

        def timed(model: ModelIdentity) -> Held:
            begun = time.perf_counter()
            try:
                held = load(model)
            except Exception:
                self._adapters.failed()
                raise
            self._adapters.loaded(model.digest, time.perf_counter() - begun)
            return held

        return timed

    def _by_place(self, outcomes: Iterable[Outcome]) -> dict[Place, list[Answered]]:
        """The answered rows by place: several chains may share one."""
        places: dict[Place, list[Answered]] = {}
        for outcome in outcomes:
            if isinstance(outcome, Answered):
                places.setdefault(self._place(outcome.row.chain), []).append(outcome)
        return places


class _Gauges(Collector):
    """Reads the worker's gauges at each scrape."""

    def __init__(self, gauges: Callable[[], GaugeValues]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        """The figures of this moment."""
        now = self._gauges()
        yield CounterMetricFamily(
            "hmi_worker_slot_mismatches",
            "Rows refused because a slot held another model: must stay 0",
            value=now.slot_mismatches,
        )
        yield GaugeMetricFamily("hmi_worker_resident_models", "Models in memory", value=now.resident_hplms)
        yield GaugeMetricFamily(
            "hmi_worker_resident_model_bytes", "Bytes of the models in memory", value=now.resident_bytes
        )
        yield GaugeMetricFamily(
            "hmi_worker_backlog_rows", "Rows taken in and not in a batch yet", value=now.backlog_rows
        )
        yield from _generation(now.decoders)


def _generation(decoders: Mapping[str, GenerationCounts]) -> Iterator[Metric]:
    """The figures of the decoders, by root."""
    sequences = GaugeMetricFamily(
        "hmi_worker_generation_sequences", "Completions under way, by state", labels=["root", "state"]
    )
    blocks = GaugeMetricFamily(
        "hmi_worker_kv_blocks", "Blocks of the key-value cache, by state", labels=["root", "state"]
    )
    for root, counts in decoders.items():
        sequences.add_metric([root, "running"], counts.running)
        sequences.add_metric([root, "waiting"], counts.waiting)
        blocks.add_metric([root, "used"], counts.used_blocks)
        blocks.add_metric([root, "cached"], counts.cached_blocks)
        blocks.add_metric([root, "free"], counts.free_blocks)
    yield sequences
    yield blocks
    for name, text, field_name in COUNTED:
        family = CounterMetricFamily(name, text, labels=["root"])
        for root, counts in decoders.items():
            family.add_metric([root], getattr(counts, field_name))
        yield family


def places_of(manifest: Callable[[], Manifest]) -> Callable[[str], Place]:
    """From a chain's name (see ``lower_layers.chain_name``) to the names of its root and of what its nearest
    table belongs to. What has just gone is named by its digest."""

    def place(chain: str) -> Place:
        root, _, *tables = chain.split(":")
        nearest = tables[0] if tables else ""
        now = manifest()
        served = now.roots.get(root)
        return served.name if served else root[:DIGITS], now.tables.get(nearest, nearest[:DIGITS])

    return place
