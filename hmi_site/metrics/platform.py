"""Metrics of the platform, read from the database and Redis at each scrape."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hmi_site.health import TIMEOUT_S
from inference.queueing.status import STATES, WorkerStatus, workers_alive
from inference.queueing.transport import RequestQueue
from tenants.base.scope import platform_scope
from versiontree.jobs.models import Job, JobKind, JobState

log = logging.getLogger(__name__)


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
