"""How the platform stands, asked of the database and of Redis at each scrape."""

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


class Platform(Collector):
    """What does not answer has no figures, and ``hmi_dependency_up`` says so: the others are told all the
    same."""

    def collect(self) -> Iterator[Metric]:
        """Ask everybody, now."""
        up = GaugeMetricFamily(
            "hmi_dependency_up", "Whether it answered for this scrape", labels=["dependency"]
        )
        for name, ask in (("database", _of_database), ("redis", _of_redis)):
            told = _ask(ask)
            up.add_metric([name], float(bool(told)))
            yield from told
        yield up


def _ask(ask: Callable[[], Iterator[Metric]]) -> list[Metric]:
    try:
        return list(ask())
    except (DatabaseError, redis.RedisError) as error:
        log.warning("not in the metrics: %s", error)
        return []


def _of_database() -> Iterator[Metric]:
    """Jobs by kind and state, the absent ones as 0."""
    rows = Job.unscoped.order_by().values_list("kind", "state").annotate(Count("pk"))
    with platform_scope():
        found = {(kind, state): count for kind, state, count in rows}
    jobs = GaugeMetricFamily("hmi_jobs", "Jobs in the database", labels=["kind", "state"])
    for kind in JobKind.values:
        for state in JobState.values:
            jobs.add_metric([kind, state], found.get((kind, state), 0))
    yield jobs


def _of_redis() -> Iterator[Metric]:
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
