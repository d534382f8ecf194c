"""The inference worker, a process of its own: ``python -m inference.worker``.

It reads requests from the queue and what to serve from the manifest, and knows neither Django nor the
database. SIGTERM and SIGINT let it answer what it has taken in, then it leaves.
"""

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from logging.config import dictConfig
from typing import Any

from redis.exceptions import RedisError

from inference.engine.allocator import keep_freed_memory
from inference.engine.lanes import abreast
from inference.engine.pipeline import Pipeline
from inference.garbage import spare_garbage_collection
from inference.hplm.devices import pick_device, pick_dtype
from inference.hplm.errors import HplmError
from inference.logs import LEVELS, STYLES, log_config
from inference.manifest import FILE_NAME, ManifestWatcher
from inference.queueing import asking
from inference.queueing.connection import connect
from inference.queueing.consumer import RequestConsumer
from inference.queueing.heartbeat import Heartbeat, beat_s
from inference.queueing.misses import MissCounter
from inference.queueing.status import State, WorkerStatus
from inference.serving.catalogue import Catalogue
from inference.serving.environment import SettingError, WorkerSettings
from inference.serving.exporter import Exporter, ExporterSettings
from inference.serving.memory import device_bytes, host_bytes
from inference.serving.metrics import Standing, WorkerMetrics, places_of
from inference.serving.server import Server
from inference.serving.turn_watch import TurnWatch

log = logging.getLogger("inference.worker")

LOST_WAIT_S = 1.0
MAX_LABELLED_TENANTS = 50
"""Tenants, and domains, with metrics of their own; the others are counted as `other`."""
LOAD_AHEAD_S = 5.0
"""For so long what is published is loaded before it is asked for, and at the start run once."""


class Worker:
    """Everything one worker consists of, wired together."""

    def __init__(self, settings: WorkerSettings, exporter: ExporterSettings) -> None:
        """Raises HplmError for a device or number format that this machine lacks."""
        device = pick_device(settings.device)
        self._settings = settings
        self._exporter = exporter
        self._metrics = WorkerMetrics(
            self._standing, place=places_of(lambda: self._catalogue.manifest), names=MAX_LABELLED_TENANTS
        )
        self._state: State = "loading"
        self._redis = connect(settings.redis_url)
        self._consumer = RequestConsumer(self._redis, settings.name)
        self._catalogue = Catalogue(
            ManifestWatcher(settings.artifact_root / FILE_NAME, roots=settings.roots),
            device=device,
            dtype=pick_dtype(settings.dtype, device),
            cache_bytes=settings.cache_bytes,
            slab=settings.slab,
            lower_bytes=settings.lower_bytes,
            device_bytes=settings.device_bytes,
            limits=settings.limits,
            misses=settings.misses,
            pipeline=Pipeline(abreast(settings.pipelining, device)),
            metrics=self._metrics,
            ahead_s=LOAD_AHEAD_S,
        )
        # A connection of its own: a thread counts while the loop answers.
        self._misses = MissCounter(connect(settings.redis_url, retries=0))
        self._server = Server(
            self._consumer,
            self._catalogue,
            limits=settings.limits,
            pace=settings.pace,
            misses=self._misses,
            metrics=self._metrics,
        )

    def run(self, stop: threading.Event) -> None:
        """Load, announce, serve, drain. Ready means: every root has computed a batch here, and what a first
        request needs has been loaded and run."""
        url, name = self._settings.redis_url, self._settings.name
        with (
            Exporter(self._metrics.registry, self._exporter),
            self._heartbeat() as heart,
            asking.Teller(connect(url, retries=0), name, self._answers(heart)),
        ):
            self._catalogue.refresh()
            self._catalogue.warm_up()
            spare_garbage_collection()
            self._announce(heart, stop)
            with self._misses, closing(self._catalogue.pipeline):
                self._server.run(stop)
            self._leave()

    def drain(self) -> None:
        """Say in the status that no more is taken in."""
        self._state = "draining"

    def _answers(self, heart: Heartbeat) -> dict[str, Callable[[], bytes]]:
        """What the worker can be asked. An order shows in its status at once."""

        def order(obey: Callable[[], object]) -> Callable[[], bytes]:
            def obeyed() -> bytes:
                obey()
                heart.beat()
                return asking.DONE

            return obeyed

        return {
            asking.TRACE: self._trace,
            asking.DRAIN: order(self._server.paused.set),
            asking.RESUME: order(self._server.paused.clear),
            asking.REFRESH: order(self._catalogue.reread),
        }

    def _announce(self, heart: Heartbeat, stop: threading.Event) -> None:
        """Join the queue as ready, as soon as it can be reached."""
        while not stop.is_set():
            try:
                heart.beat()
                self._consumer.follow(self._catalogue.executors)
                self._state = "ready"
                heart.beat()
                log.info("%s is ready", self._settings.name)
                return
            except RedisError as error:
                log.warning("waiting for the queue: %s", error)
                stop.wait(LOST_WAIT_S)

    def _heartbeat(self) -> Heartbeat:
        # A connection of its own: the other one may be busy for seconds trying to reach a lost server.
        redis, life_s = connect(self._settings.redis_url, retries=0), self._settings.life_s
        stuck_s = self._settings.stuck_s
        watch = TurnWatch(lambda: self._server.turns, every_s=beat_s(life_s), stuck_s=stuck_s)

        def end() -> None:
            log.critical("the loop has made no turn for %g s; the process ends, to be started anew", stuck_s)
            faulthandler.dump_traceback()
            os._exit(os.EX_SOFTWARE)  # no thread can be waited for

        return Heartbeat(
            redis,
            self._settings.name,
            self._status,
            life_s=life_s,
            roots=lambda: self._catalogue.executors if self._told_state() == "ready" else (),
            hangs=watch.hangs,
            on_hang=end,
        )

    def _leave(self) -> None:
        try:
            self._consumer.leave()
        except RedisError as error:
            log.warning("left without signing off: %s", error)

    def _standing(self) -> Standing:
        cache = self._catalogue.cache
        return Standing(
            resident_hplms=len(cache),
            resident_bytes=cache.used_bytes,
            backlog_rows=self._server.backlog_rows,
            slot_mismatches=self._catalogue.counters.slot_mismatches,
        )

    def _trace(self) -> bytes:
        trace = self._catalogue.pipeline.trace.chrome(process=self._settings.name)
        return json.dumps(trace, separators=(",", ":")).encode()

    def _told_state(self) -> State:
        if self._state != "ready" or not self._server.paused.is_set():
            return self._state
        return "drained" if self._server.is_drained else "draining"

    def _status(self) -> bytes:
        catalogue, counters = self._catalogue, self._catalogue.counters
        device_used, device_total = device_bytes(catalogue.device)
        served = [root for digest, root in catalogue.manifest.roots.items() if digest in catalogue.executors]
        return WorkerStatus(
            name=self._settings.name,
            state=self._told_state(),
            device=str(catalogue.device),
            dtype=str(catalogue.dtype).removeprefix("torch."),
            roots=tuple(root.name for root in served),
            root_digests=tuple(root.digest for root in served),
            revision=catalogue.manifest.revision,
            hplms=len(catalogue.manifest.hplms),
            last_batch_at=self._server.last_batch_at,
            last_error=self._server.last_error or catalogue.last_error,
            batches=counters.batches,
            rows=counters.rows,
            slot_mismatches=counters.slot_mismatches,
            resident=len(catalogue.cache),
            resident_bytes=catalogue.cache.used_bytes,
            pinned=len(catalogue.manifest.to_stay()),
            pinned_resident=catalogue.pinned_resident,
            waiting=self._server.backlog_rows,
            host_bytes=host_bytes(),
            device_used_bytes=device_used,
            device_total_bytes=device_total,
            recently=self._server.recent.told(),
        ).to_json()


def log_config_from(env: Mapping[str, str]) -> dict[str, Any]:
    """As the web process logs. Raises SettingError."""
    style, level = env.get("HMI_LOG_FORMAT") or "line", env.get("HMI_LOG_LEVEL") or "info"
    for name, word, known in (("HMI_LOG_FORMAT", style, [*STYLES]), ("HMI_LOG_LEVEL", level, LEVELS)):
        if word not in known:
            raise SettingError(f"{name}={word!r} must be one of {', '.join(known)}")
    return log_config(style, level)


def main() -> int:
    """Run until a signal; 0 after a clean stop, 2 for wrong settings."""
    stop = threading.Event()
    try:
        dictConfig(log_config_from(os.environ))
        keep_freed_memory()
        worker = Worker(WorkerSettings.from_env(), ExporterSettings.from_env())
    except (SettingError, HplmError) as error:
        log.error("%s", error)
        return 2

    def drain(*_: object) -> None:
        worker.drain()
        stop.set()

    signal.signal(signal.SIGTERM, drain)
    signal.signal(signal.SIGINT, drain)
    worker.run(stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
