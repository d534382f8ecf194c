"""A worker in the test's own process, moved step by step, beside the queue it serves."""

from collections.abc import Callable
from pathlib import Path

import torch

from inference.engine.batcher import BatchLimits
from inference.engine.pipeline import Pipeline
from inference.manifest import ManifestWatcher
from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.consumer import RequestConsumer
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.transport import RequestQueue
from inference.serving.device_ledger import ledger_of
from inference.serving.encoder_catalogue import EncoderCatalogue
from inference.serving.encoder_scheduler import EncoderScheduler
from inference.serving.loop import ServingLoop
from inference.serving.loop_timing import Clock, LoopTiming
from inference.serving.metrics import GaugeValues, WorkerMetrics, places_of
from inference.serving.outbox import Outbox
from tests.integration.inference.queueing.requests import replies_in
from tests.unit.tiny_world import TinyWorld

CPU = torch.device("cpu")
TIMING = LoopTiming(idle_wait_s=0.002, claim_every_s=0.0, drop_every_s=0.0)


class LateClock(Clock):
    """Ahead of the system's by some seconds, so that deadlines pass."""

    def __init__(self, late: Callable[[], float]) -> None:
        self._late = late

    def time(self) -> float:
        return super().time() + self._late()


class Desk:
    """``ask`` submits and serves until everything is answered; ``late`` moves the worker's clock."""

    def __init__(
        self,
        redis_url: str,
        world: TinyWorld,
        *,
        rows: int = 32,
        pool_bytes: int | None = 1 << 30,
        lower_bytes: int = 1 << 30,
        device_bytes: int = 0,
        pipeline: Pipeline | None = None,
        name: str = "desk",
        timing: LoopTiming = TIMING,
    ) -> None:
        self.redis = connect(redis_url, retries=1)
        self.queue = RequestQueue(self.redis, capacity=1000)
        self.late = 0.0
        self.consumer = RequestConsumer(self.redis, name)
        watcher = ManifestWatcher(Path(world.artifact_root) / "manifest.json")
        place = places_of(lambda: self.catalogue.manifest)
        self.metrics = WorkerMetrics(lambda: GaugeValues(0, 0, 0, 0), place=place)
        self.catalogue = EncoderCatalogue(
            watcher,
            device=CPU,
            dtype=torch.float32,
            pool_bytes=pool_bytes,
            lower_bytes=lower_bytes,
            ledger=ledger_of(CPU, device_bytes=device_bytes, model_bytes=pool_bytes or 0),
            pipeline=pipeline,
            metrics=self.metrics,
        )
        self.new_loop(rows, timing)
        self.redis.set(keys.worker(name), b"{}")

    def new_loop(self, rows: int, timing: LoopTiming) -> None:
        """Serve from now on with batches of so many rows."""
        clock = LateClock(lambda: self.late)
        outbox = Outbox(self.consumer, self.metrics, clock.time)
        self.scheduler = EncoderScheduler(
            self.catalogue,
            outbox,
            limits=BatchLimits(rows=rows),
            timing=timing,
            metrics=self.metrics,
            clock=clock,
        )
        self.server = ServingLoop(
            self.consumer, self.scheduler, outbox, timing=timing, answers_overdue=True, clock=clock
        )

    def step(self, *, taking: bool = True) -> bool:
        """One turn, by what is published now; False when there was nothing to do."""
        self.catalogue.refresh()
        return self.server.step(taking=taking)

    def serve(self) -> None:
        """Step until there is nothing left to do."""
        while self.step() or self.queue.depth():
            continue

    def ask(self, *requests: InferRequest) -> list[InferReply]:
        """The replies, in the order of the requests; each was answered once."""
        for request in requests:
            self.queue.submit(request)
        self.serve()
        ids = [request.id for request in requests]
        found = replies_in(self.redis)
        replies = {reply.id: reply for reply in found}
        assert sorted(reply.id for reply in found if reply.id in set(ids)) == sorted(ids)
        return [replies[request_id] for request_id in ids]

    def close(self) -> None:
        self.redis.close()
