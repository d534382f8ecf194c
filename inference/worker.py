"""The inference worker process: ``python -m inference.worker``.

It reads requests from the queue and the models to serve from the manifest. It uses neither Django nor the
database. After SIGTERM or SIGINT it answers the requests that it has accepted, then it exits.
"""

import argparse
import faulthandler
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from logging.config import dictConfig
from typing import Any

from redis.exceptions import RedisError

from inference.engine.compute_threads import lower_priority, with_parallel_batches
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining
from inference.errors import DeviceUnavailableError, HplmError
from inference.generation.scheduler import GenerationCounts
from inference.hplm.devices import pick_device, pick_dtype, unused_gpu
from inference.logs import LEVELS, STYLES, log_config
from inference.machine_memory import machine_bytes
from inference.manifest import FILE_NAME, ManifestWatcher, ServedDecoder, ServedRoot
from inference.queueing import worker_commands
from inference.queueing.connection import connect
from inference.queueing.consumer import RequestConsumer
from inference.queueing.heartbeat import Heartbeat, beat_s
from inference.queueing.status import DecoderStatus, State, WorkerStatus, expect_no_worker
from inference.serving.decoder_catalogue import DecoderCatalogue
from inference.serving.decoder_scheduler import DecoderScheduler
from inference.serving.device_ledger import host_bytes, ledger_of, used_and_total_bytes
from inference.serving.encoder_catalogue import POOL_SHARE, EncoderCatalogue
from inference.serving.encoder_scheduler import EncoderScheduler
from inference.serving.environment import SettingError, WorkerSettings
from inference.serving.exporter import Exporter, ExporterSettings
from inference.serving.loop import ServingLoop
from inference.serving.metrics import GaugeValues, WorkerMetrics, places_of
from inference.serving.outbox import Outbox
from inference.serving.watchdog import Watchdog, end_process, end_process_with_any_thread
from inference.visible_gpus import show_one_gpu

log = logging.getLogger("inference.worker")

RECONNECT_WAIT_S = 1.0
"""Between attempts to reach the queue at the start."""
MAX_LABELLED_TENANTS = 50
"""At most this many tenants, and domains, have metrics of their own; the rest are labelled `other`."""
WARM_UP_S = 15.0
"""Time limit for loading models and running texts before the worker is ready."""
GENERATION_NICENESS = 5
"""What the thread that generates adds to the niceness of the process."""
LOAD_AHEAD_S = 5.0
"""Time limit for loading the models of a later revision beside the requests."""


class Worker:
    """Wires the parts of a worker: queue, catalogues, loops, metrics and heartbeat.

    The main thread runs the loop of encoders, another that of decoders. The threads of the heartbeat, of
    control messages and of the exporter read what they may.
    """

    def __init__(self, settings: WorkerSettings, exporter: ExporterSettings) -> None:
        """Raises HplmError for a device or number format that this machine does not have."""
        device = pick_device(settings.device)
        pool_bytes = settings.pool_bytes or machine_bytes() // POOL_SHARE
        ledger = ledger_of(device, device_bytes=settings.device_bytes, model_bytes=pool_bytes)
        self._unused_gpu = unused_gpu(settings.device)
        self._settings = settings
        self._exporter = exporter
        self._metrics = WorkerMetrics(
            self._gauge_values, place=places_of(lambda: self._encoders.manifest), names=MAX_LABELLED_TENANTS
        )
        self._state: State = "loading"
        self._consumer = RequestConsumer(connect(settings.redis_url), settings.name)
        self._encoders = EncoderCatalogue(
            self._manifest_watcher(),
            device=device,
            dtype=pick_dtype(settings.dtype, device),
            pool_bytes=pool_bytes,
            lower_bytes=settings.lower_bytes,
            ledger=ledger,
            limits=settings.limits,
            pipeline=Pipeline(with_parallel_batches(Pipelining(), device)),
            metrics=self._metrics,
            warm_up_s=WARM_UP_S,
            load_ahead_s=LOAD_AHEAD_S,
        )
        self._decoders = DecoderCatalogue(
            self._manifest_watcher(),
            device=device,
            dtype=self._encoders.dtype,
            cache_bytes=settings.kv_cache_bytes,
            ledger=ledger,
        )
        timing, metrics, alone = settings.timing, self._metrics, threading.Lock()
        outbox = Outbox(self._consumer, metrics)
        self._scheduler = EncoderScheduler(
            self._encoders, outbox, limits=settings.limits, timing=timing, metrics=metrics
        )
        self._encoder_loop = ServingLoop(
            self._consumer, self._scheduler, outbox, timing=timing, alone=alone, answers_overdue=True
        )
        redis = connect(settings.redis_url)  # of the other thread
        consumer = RequestConsumer(redis, settings.name)
        outbox = Outbox(consumer, metrics)
        self._decoder_scheduler = DecoderScheduler(
            self._decoders, outbox, consumer, redis, timing=timing, metrics=metrics
        )
        self._decoder_loop = ServingLoop(
            consumer, self._decoder_scheduler, outbox, timing=timing, alone=alone
        )
        self._running: set[ServingLoop] = set()

    def _manifest_watcher(self) -> ManifestWatcher:
        return ManifestWatcher(self._settings.artifact_root / FILE_NAME, roots=self._settings.roots)

    def run(self, stop: threading.Event) -> None:
        """Load the models, announce the worker, serve, and drain.

        It is ready once each root has computed a batch, each decoder two steps, and what a first
        request needs is loaded; or without a root that cannot be loaded, which its status names, but not
        without all of them. An exception, such as DeviceLostError, must end the process: the thread that
        generates goes on.
        """
        url, name = self._settings.redis_url, self._settings.name
        with (
            Exporter(self._metrics.registry, self._exporter),
            self._heartbeat() as heart,
            worker_commands.CommandListener(connect(url, retries=0), name, self._answers(heart)),
        ):
            self._decoders.refresh()  # first: rows of tables take what weights leave
            self._encoders.refresh()
            self._encoders.warm_up()
            self._announce(heart, stop)
            generating = threading.Thread(target=self._generate, args=(stop,), name="generation")
            generating.start()
            with closing(self._encoders.pipeline):
                self._run_loop(self._encoder_loop, stop)
            generating.join()
            self._leave()

    def _generate(self, stop: threading.Event) -> None:
        """Serve the generative models, at a lower priority than what answers in milliseconds."""
        lower_priority(GENERATION_NICENESS)
        self._run_loop(self._decoder_loop, stop)

    def _run_loop(self, loop: ServingLoop, stop: threading.Event) -> None:
        """Run a loop, watched by the heartbeat."""
        self._running.add(loop)
        loop.run(stop)
        self._running.discard(loop)

    def drain(self) -> None:
        """Report in the status that no more requests are accepted."""
        self._state = "draining"

    def _answers(self, heart: Heartbeat) -> dict[str, Callable[[], bytes]]:
        """The handlers of control messages. Commands update the status at once."""

        def command(run: Callable[[], object]) -> Callable[[], bytes]:
            def handle() -> bytes:
                run()
                heart.beat()
                return worker_commands.DONE

            return handle

        return {
            worker_commands.TRACE: self._trace,
            worker_commands.DRAIN: command(self._pause),
            worker_commands.RESUME: command(self._resume),
            worker_commands.REFRESH: command(self._reread),
        }

    @property
    def _loops(self) -> tuple[ServingLoop, ServingLoop]:
        return self._encoder_loop, self._decoder_loop

    def _pause(self) -> None:
        for loop in self._loops:
            loop.paused.set()

    def _resume(self) -> None:
        for loop in self._loops:
            loop.paused.clear()

    def _reread(self) -> None:
        self._encoders.reread()
        self._decoders.reread()

    def _announce(self, heart: Heartbeat, stop: threading.Event) -> None:
        """Join the queue, once it can be reached: as ready, if any root could be loaded."""
        while not stop.is_set():
            try:
                heart.beat()
                self._consumer.follow(self._encoders.executors)
                self._state = "ready"
                heart.beat()
                log.info("%s is %s", self._settings.name, self._reported_state())
                if missing := self._missing_roots():
                    names = ", ".join(root.name for root in missing)
                    log.error("roots that could not be loaded are tried again: %s", names)
                return
            except RedisError as error:
                log.warning("waiting for the queue: %s", error)
                stop.wait(RECONNECT_WAIT_S)

    def _heartbeat(self) -> Heartbeat:
        # A connection of its own: the other may block for seconds while it reconnects.
        redis, life_s = connect(self._settings.redis_url, retries=0), self._settings.life_s
        stuck_s = self._settings.stuck_s
        watchdogs = [
            Watchdog(partial(self._iterations, loop), every_s=beat_s(life_s), stuck_s=stuck_s)
            for loop in self._loops
        ]

        def end() -> None:
            faulthandler.dump_traceback()
            end_process(f"a loop has been stuck for {stuck_s:g} s")

        return Heartbeat(
            redis,
            self._settings.name,
            self._status,
            life_s=life_s,
            roots=lambda: self._served_roots() if self._reported_state() == "ready" else (),
            # Each is to be asked every time.
            hangs=lambda: any([watchdog.hangs() for watchdog in watchdogs]),  # noqa: C419
            on_hang=end,
        )

    def _iterations(self, loop: ServingLoop) -> int:
        """Those of a loop; 0 unless it runs."""
        return loop.iterations if loop in self._running else 0

    def _leave(self) -> None:
        try:
            self._consumer.leave()
        except RedisError as error:
            log.warning("left without signing off: %s", error)

    def _gauge_values(self) -> GaugeValues:
        pool = self._encoders.pool
        return GaugeValues(
            resident_hplms=len(pool),
            resident_bytes=pool.used_bytes,
            backlog_rows=self._scheduler.backlog_rows,
            slot_mismatches=self._encoders.counters.slot_mismatches,
            decoders=self._decoders.counts(),
        )

    def _trace(self) -> bytes:
        trace = self._encoders.pipeline.trace.chrome(process=self._settings.name)
        return json.dumps(trace, separators=(",", ":")).encode()

    def _reported_state(self) -> State:
        if self._state != "ready":
            return self._state
        if self._encoder_loop.paused.is_set():
            return "drained" if all(loop.is_drained for loop in self._loops) else "draining"
        return "loading" if self._load_error() and not self._served_roots() else "ready"

    def _load_error(self) -> str:
        return self._encoders.last_error or self._decoders.last_error

    def _served_roots(self) -> tuple[str, ...]:
        """The digests of the roots that it takes requests for."""
        return (*self._encoders.executors, *self._decoders.roots)

    def _missing_roots(self) -> list[ServedRoot | ServedDecoder]:
        """The roots that could not be loaded."""
        return [*self._encoders.missing_roots, *self._decoders.missing_roots]

    def _status(self) -> bytes:
        catalogue, counters = self._encoders, self._encoders.counters
        device_used, device_total = used_and_total_bytes(catalogue.device)
        named: list[ServedRoot | ServedDecoder] = [
            *catalogue.manifest.roots.values(),
            *self._decoders.manifest.decoders.values(),
        ]
        served = [root for root in named if root.digest in self._served_roots()]
        missing = self._missing_roots()
        return WorkerStatus(
            name=self._settings.name,
            state=self._reported_state(),
            device=str(catalogue.device),
            dtype=str(catalogue.dtype).removeprefix("torch."),
            roots=tuple(root.name for root in served),
            root_digests=tuple(root.digest for root in served),
            missing_roots=tuple(root.name for root in missing),
            missing_root_digests=tuple(root.digest for root in missing),
            revision=catalogue.manifest.revision,
            hplms=len(catalogue.manifest.hplms) + len(self._decoders.manifest.generative_hplms),
            last_batch_at=self._scheduler.last_batch_at,
            last_error=self._encoder_loop.last_error or self._load_error() or self._unused_gpu,
            batches=counters.batches,
            rows=counters.rows,
            slot_mismatches=counters.slot_mismatches,
            resident=len(catalogue.pool),
            resident_bytes=catalogue.pool.used_bytes,
            pinned=len(catalogue.manifest.pinned_hplms()),
            pinned_resident=catalogue.pinned_resident,
            waiting=self._scheduler.backlog_rows,
            host_bytes=host_bytes(),
            device_used_bytes=device_used,
            device_total_bytes=device_total,
            recently=self._scheduler.recent.rates(),
            decoders=tuple(_decoder_status(*each) for each in self._decoders.counts().items()),
            generated=self._decoder_scheduler.recent.rates(),
        ).encode()


def _decoder_status(name: str, counts: GenerationCounts) -> DecoderStatus:
    return DecoderStatus(
        name,
        running=counts.running,
        waiting=counts.waiting,
        blocks=counts.blocks,
        block_size=counts.block_size,
        used_blocks=counts.used_blocks,
        cached_blocks=counts.cached_blocks,
        generated_tokens=counts.generated_tokens,
        preemptions=counts.preemptions,
        completions=counts.completions,
    )


def log_config_from(env: Mapping[str, str]) -> dict[str, Any]:
    """The logging configuration from the environment. Raises SettingError."""
    style, level = env.get("HMI_LOG_FORMAT") or "line", env.get("HMI_LOG_LEVEL") or "info"
    for name, word, known in (("HMI_LOG_FORMAT", style, [*STYLES]), ("HMI_LOG_LEVEL", level, LEVELS)):
        if word not in known:
            raise SettingError(f"{name}={word!r} must be one of {', '.join(known)}")
    return log_config(style, level)


def _arguments() -> dict[str, Any]:
    """The settings that differ between the processes of one installation."""
    parser = argparse.ArgumentParser(description="Serve the models of an installation on one device.")
    parser.add_argument("--name", help="unique among the workers; random by default")
    parser.add_argument("--life-s", type=float, help="seconds without a heartbeat until it counts as dead")
    parser.add_argument("--stuck-s", type=float, help="seconds without a batch until it ends itself")
    return {name: value for name, value in vars(parser.parse_args()).items() if value is not None}


def _refuse_requests(settings: WorkerSettings) -> None:
    """Have requests for this worker's roots refused at once, unless other workers serve them."""
    manifest = ManifestWatcher(settings.artifact_root / FILE_NAME, roots=settings.roots).current()
    try:
        with connect(settings.redis_url, retries=0) as redis:
            expect_no_worker(redis, [*manifest.roots, *manifest.decoders])
    except RedisError as error:
        log.warning("requests wait for a worker up to their deadline: %s", error)


def main() -> int:
    """Run until a signal. Returns the exit status: 0, 2 for invalid settings, or 69 if the device cannot be
    used now. If any thread fails, for instance because the device is lost, the process ends at once with 70:
    what it took in is for the next worker to claim."""
    stop = threading.Event()
    try:
        dictConfig(log_config_from(os.environ))
        settings = WorkerSettings.from_env(**_arguments())
        show_one_gpu(settings.device)
        worker = Worker(settings, ExporterSettings.from_env())
    except DeviceUnavailableError as error:
        log.critical("%s", error.message)
        _refuse_requests(settings)
        return os.EX_UNAVAILABLE
    except (SettingError, HplmError) as error:
        log.error("%s", error)
        return 2

    def drain(*_: object) -> None:
        worker.drain()
        stop.set()

    signal.signal(signal.SIGTERM, drain)
    signal.signal(signal.SIGINT, drain)
    end_process_with_any_thread()
    try:
        worker.run(stop)
    except BaseException as error:  # noqa: BLE001 - other threads would go on
        end_process("serving has failed", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
