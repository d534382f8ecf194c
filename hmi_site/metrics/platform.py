"""Metrics of the platform, read from the database and Redis at each scrape."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import Count, Sum
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hmi_site.health import TIMEOUT_S
from inference.queueing.status import STATES, WorkerStatus, workers_alive
from inference.queueing.transport import RequestQueue
from tenants.base.disk_watch import data_disks
from tenants.base.scope import platform_scope
from tenants.usage.models import AnswerDay, RequestStatus, UsageSum
from tenants.usage.selectors import busiest_versions
from versiontree.jobs.models import Job, JobKind, JobState

log = logging.getLogger(__name__)

MAX_VERSIONS: Final = 50
"""At most so many versions have series of their own: those with the most texts of the day."""
VERSION_LABELS: Final = ("tenant", "model", "version")


class PlatformCollector(Collector):
    """Collects metrics of each dependency that responds. ``hmi_dependency_up`` is 0 for the others."""

    def collect(self) -> Iterator[Metric]:
        """Query the database and Redis."""
        up = GaugeMetricFamily(
            "hmi_dependency_up", "Whether it responded to this scrape", labels=["dependency"]
        )
        for name, collect in (("database", _database_metrics), ("redis", _redis_metrics)):
            metrics = _collect(collect)
            up.add_metric([name], float(bool(metrics)))
            yield from metrics
        yield up
        yield from _disk_metrics()


def _disk_metrics() -> Iterator[Metric]:
    """The space of the disks that hold data."""
    free = GaugeMetricFamily("hmi_disk_free_bytes", "Free bytes of a disk that holds data", labels=["folder"])
    size = GaugeMetricFamily("hmi_disk_size_bytes", "Bytes of a disk that holds data", labels=["folder"])
    for disk in data_disks():
        free.add_metric([str(disk.folder)], disk.free)
        size.add_metric([str(disk.folder)], disk.total)
    yield from (free, size)


def _collect(collect: Callable[[], Iterator[Metric]]) -> list[Metric]:
    try:
        return list(collect())
    except (DatabaseError, redis.RedisError) as error:
        log.warning("Metrics are missing: %s", error)
        return []


def _database_metrics() -> Iterator[Metric]:
    """Jobs by kind and state, including those with none."""
    rows = Job.unscoped.order_by().values_list("kind", "state").annotate(Count("pk"))
    with platform_scope():
        counts = {(kind, state): count for kind, state, count in rows}
    jobs = GaugeMetricFamily("hmi_jobs", "Jobs in the database", labels=["kind", "state"])
    for kind in JobKind.values:
        for state in JobState.values:
            jobs.add_metric([kind, state], counts.get((kind, state), 0))
    yield jobs
    yield from _request_metrics()
    yield from _answer_metrics()


def _request_metrics() -> Iterator[Metric]:
    """Infer requests of all tenants since midnight UTC, by how they ended."""
    rows = UsageSum.unscoped.filter(day=datetime.now(UTC).date())
    with platform_scope():
        sums = rows.aggregate(**{name: Sum(name, default=0) for name in ("requests", "failed", "refused")})
    family = GaugeMetricFamily(
        "hmi_requests_today", "Infer requests by how they ended; today, UTC", labels=["outcome"]
    )
    answered = sums["requests"] - sums["failed"]
    for status, count in zip(RequestStatus, (answered, sums["refused"], sums["failed"]), strict=True):
        family.add_metric([status.value], count)
    yield family


def _answer_metrics() -> Iterator[Metric]:
    """What the busiest versions answered since midnight UTC. What a version has no figure of is absent."""
    with platform_scope():
        days = busiest_versions(datetime.now(UTC).date(), MAX_VERSIONS)
    yield _of_versions("texts", "Texts answered", days, lambda day: day.texts)
    yield _of_versions(
        "confidence",
        "Mean calibrated probability of the level that read a text first",
        days,
        lambda day: day.mean_confidence,
    )
    yield _of_versions(
        "escalated_share",
        "Share of texts that the cascade sent on to the level full",
        days,
        lambda day: day.escalated_share,
    )
    yield _of_versions(
        "agreement",
        "Share of checked texts with the same answer from the tables and at the level full",
        days,
        lambda day: day.agreement,
    )
    coverage = GaugeMetricFamily(
        "hmi_version_token_share",
        "Share of tokens, by what the tables had of their fragments; today, UTC",
        labels=[*VERSION_LABELS, "level"],
    )
    for day in days:
        for level, share in zip(("trigram", "bigram", "unigram"), day.coverage or (), strict=False):
            coverage.add_metric([*_version_labels(day), level], share)
    yield coverage


def _of_versions(
    name: str, text: str, days: list[AnswerDay], figure: Callable[[AnswerDay], float | None]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"hmi_version_{name}", f"{text}; today, UTC", labels=VERSION_LABELS)
    for day in days:
        if (value := figure(day)) is not None:
            family.add_metric(_version_labels(day), value)
    return family


def _version_labels(day: AnswerDay) -> list[str]:
    return [day.tenant.slug, day.model_name, str(day.version)]


def _redis_metrics() -> Iterator[Metric]:
    with redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    ) as client:
        yield from _queue(client)
        yield from _workers(workers_alive(client))


def _queue(client: redis.Redis) -> Iterator[Metric]:
    capacity: int = settings.HMI_INFER_CAPACITY
    queue = RequestQueue(client, capacity=capacity)
    delivered, outstanding = queue.delivered(), queue.depth()
    yield _gauge("hmi_queue_depth_requests", "Requests that no worker has taken yet", outstanding - delivered)
    yield _gauge("hmi_queue_outstanding_requests", "Requests accepted and not yet answered", outstanding)
    yield _gauge("hmi_queue_capacity_requests", "Requests that may be outstanding at once", capacity)


def _workers(alive: list[WorkerStatus]) -> Iterator[Metric]:
    states = Counter(worker.state for worker in alive)
    workers = GaugeMetricFamily("hmi_workers", "Inference workers with a heartbeat", labels=["state"])
    for state in STATES:
        workers.add_metric([state], states[state])
    yield workers
    mismatches = sum(worker.slot_mismatches for worker in alive)
    text = "Rows refused because a slot held another model, by the workers alive: must stay 0"
    yield _gauge("hmi_workers_slot_mismatches", text, mismatches)
    if last := max((worker.last_batch_at for worker in alive), default=0.0):
        text = "Time since any worker alive computed a batch; absent before the first"
        yield _gauge("hmi_last_batch_age_seconds", text, max(0.0, time.time() - last))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=max(0.0, value))
