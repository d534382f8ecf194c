"""The worker's loop under a virtual clock: the scheduler is the real one, engine and queue are not."""

import heapq
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Event, Lock
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np

from inference.cascade.dispatcher import Dispatcher, Level
from inference.engine.batcher import BatchLimits, StepCosts
from inference.engine.in_flight import BatchCallbacks, Counters, GivenUpError, InFlightBatch
from inference.engine.pipeline import BatchTask
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Outcome, Row, StageSeconds
from inference.engine.trace import Trace
from inference.hplm.root import Root
from inference.manifest import ServedHplm
from inference.queueing import keys
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.messages import InferReply, InferRequest, SequenceOutput, TokenSequence
from inference.queueing.transport import Address
from inference.serving.encoder_catalogue import EncoderCatalogue, Route
from inference.serving.encoder_scheduler import EncoderScheduler
from inference.serving.loop import ServingLoop
from inference.serving.loop_timing import Clock, LoopTiming
from inference.serving.outbox import Outbox
from tests.unit.inference.serving.outcomes import CHAIN, ROOT, a_failure, an_answer

Item = TypeVar("Item")
CONFIG = SimpleNamespace(vocab=2, type_count=1, max_tokens=512, layers=6, upper=3)
NEXT_AT = 0.8
"""After this part of a batch's time the next one is chosen."""
SURE_FROM = 150
"""Texts of so many tokens do not go on from the tables."""
FAILING = 13
"""Texts of so many tokens cannot be computed."""


class VirtualClock(Clock):
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self._planned: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def at(self, when: float, act: Callable[[], object]) -> None:
        """Do it then."""
        heapq.heappush(self._planned, (max(when, self.now), next(self._numbers), act))

    def wait(self, happened: Callable[[], object], timeout_s: float | None) -> None:
        """Until it has happened, or that much time has passed."""
        until = None if timeout_s is None else self.now + timeout_s
        while not happened():
            if not self._planned or (until is not None and self._planned[0][0] > until):
                assert until is not None, "nothing will ever happen"
                self.now = until
                return
            self.now, _, act = heapq.heappop(self._planned)
            act()

    def get(self, events: "SimpleQueue[Item]", timeout_s: float | None) -> Item:
        self.wait(lambda: not events.empty(), timeout_s)
        if events.empty():
            raise Empty
        return events.get_nowait()


@dataclass(eq=False)
class SimulatedBatch:
    """A batch that waits for a core, or is on one."""

    rows: list[Row]
    callbacks: BatchCallbacks
    seconds: float
    computed: bool = True
    ended: bool = False
    report: Callable[[], None] = lambda: None

    def end(self) -> None:
        """It is computed or given up."""
        self.ended = True
        self.report()


class SimulatedEngine:
    """An engine whose batches take their ``took`` seconds of the virtual clock on one of ``cores``; batches
    that are ``alone`` have all cores."""

    def __init__(self, clock: VirtualClock, took: StepCosts, *, cores: int = 2) -> None:
        self.root = cast("Root", SimpleNamespace(config=CONFIG, number_format="float32"))
        self.costs = StepCosts()
        self.cores = cores
        self.sizes: list[int] = []
        self.full_rows: list[int] = []
        """Of each batch, how many rows it has at the level FULL."""
        self._clock, self._took = clock, took
        self._numbers = count(1)
        self._batches: dict[int, SimulatedBatch] = {}
        self._free_cores = cores
        self._waiting: list[int] = []

    def begin(self, rows: Sequence[Row], callbacks: BatchCallbacks, *, alone: bool) -> InFlightBatch:
        number = next(self._numbers)
        seconds = self._took.fixed_s + self._took.token_s * sum(row.work for row in rows)
        batch = SimulatedBatch(list(rows), callbacks, seconds / self.cores if alone else seconds)

        def submit(end: Callable[[], None]) -> "Future[None]":
            batch.report = end
            return Future()

        computing = BatchTask[Any](lambda: None, submit)
        self._batches[number] = batch
        self._waiting.append(number)
        self._start()
        nothing = BatchTask[Any](lambda: None, None)
        return InFlightBatch(number, batch.rows, nothing, nothing, computing, Event())

    def finish(self, batch: InFlightBatch) -> list[Outcome]:
        done = self._batches[batch.number]
        self._clock.wait(lambda: done.ended, None)
        del self._batches[batch.number]
        if not done.computed:
            raise GivenUpError
        work = sum(row.work for row in done.rows)
        seconds = StageSeconds(compute=done.seconds / self.cores)
        return [
            a_failure(row)
            if len(row) == FAILING
            else replace(
                an_answer(row, seconds=seconds.share(row.work / work)),
                escalates=row.dispatcher is not None and len(row) < SURE_FROM,
            )
            for row in done.rows
        ]

    def _start(self) -> None:
        while self._free_cores and self._waiting:
            self._run(self._waiting.pop(0))

    def _run(self, number: int) -> None:
        batch, now = self._batches[number], self._clock.now
        if not batch.callbacks.wanted():
            batch.computed = False
            self._clock.at(now, batch.end)
            return
        self.sizes.append(len(batch.rows))
        self.full_rows.append(sum(row.level is Level.FULL for row in batch.rows))
        self._free_cores -= 1
        self._clock.at(now + NEXT_AT * batch.seconds, partial(batch.callbacks.prefetch, number))
        self._clock.at(now + batch.seconds, partial(self._end, batch))

    def _end(self, batch: SimulatedBatch) -> None:
        batch.end()
        self._free_cores += 1
        self._start()


class SimulatedQueue:
    """The queue in memory. ``replies``: when each request was answered, and how, as often as it was."""

    def __init__(self, clock: VirtualClock) -> None:
        self.roots: list[str] = [ROOT]
        self.replies: dict[str, list[tuple[float, InferReply]]] = {}
        self.sent: dict[str, InferRequest] = {}
        self._clock = clock
        self._arrived: dict[bool, list[Entry]] = {False: [], True: []}
        self._abandoned: dict[bool, list[Entry]] = {False: [], True: []}
        self._held: dict[Address, Entry] = {}
        self._cancelled: set[str] = set()

    def ask(self, request: InferRequest, *, background: bool = False, abandoned: bool = False) -> None:
        """The request arrives when it says. ``abandoned``: another worker took it then, and died."""
        self.sent[request.id] = request
        queue = keys.background(ROOT) if background else ROOT
        entry = Entry(Address(queue, request.id), request, 2 if abandoned else 1)
        arrived = self._abandoned if abandoned else self._arrived
        self._clock.at(request.enqueued_at, lambda: arrived[background].append(entry))

    def cancel(self, request_id: str, at: float) -> None:
        """Its caller no longer waits."""
        self._clock.at(at, lambda: self._cancelled.add(request_id))

    def outstanding(self, tenant: str) -> int:
        """Requests of the tenant that have arrived and have no answer."""
        queues = *self._arrived.values(), *self._abandoned.values(), self._held.values()
        waiting = [entry for queue in queues for entry in queue]
        return sum(entry.request.tenant == tenant for entry in waiting)

    def follow(self, roots: Collection[str]) -> None:
        self.roots = sorted(roots)

    def read(self, most: int, block_ms: int) -> list[Entry]:
        self._clock.wait(lambda: self._arrived[False], block_ms / 1000)
        return self._take(self._arrived[False], self.share(most))

    def share(self, most: int) -> int:
        return most

    def read_background(self) -> list[Entry]:
        return self._take(self._arrived[True], 1)

    def claim_abandoned(self, most: int = 1, *, background: bool = False) -> list[Entry]:
        return self._take(self._abandoned[background], most)

    def clear(self, entry: Entry) -> None:
        pass

    def overdue_elsewhere(self, now: float) -> list[Entry]:
        return []

    def answered(self) -> frozenset[Address]:
        return frozenset(at for at, entry in self._held.items() if entry.request.id in self._cancelled)

    def answer_all(self, answers: Sequence[tuple[Entry, InferReply]]) -> list[bool]:
        for entry, reply in answers:
            self._held.pop(entry.address, None)
            self.replies.setdefault(reply.id, []).append((self._clock.now, reply))
        return [True] * len(answers)

    def _take(self, entries: list[Entry], most: int) -> list[Entry]:
        taken = entries[:most]
        del entries[:most]
        self._held |= {entry.address: entry for entry in taken}
        return taken


@dataclass
class SimulatedPool:
    """Holds nothing."""

    checks: int = 0

    def check_integrity(self) -> None:
        self.checks += 1


class SimulatedCatalogue:
    """Serves every model of one root."""

    is_behind = is_bringing = False

    def __init__(self, engine: SimulatedEngine, weights: dict[str, float] | None = None) -> None:
        self.executors = {ROOT: engine}
        self.counters, self.pool = Counters(), SimulatedPool()
        self.manifest = SimpleNamespace(weight=lambda tenant: (weights or {}).get(tenant, 1.0))
        pipelining = Pipelining(parallel_batches=engine.cores)
        self.pipeline = SimpleNamespace(trace=Trace(), pipelining=pipelining, at_rest=True)

    def keep_up(self) -> bool:
        return False

    def route(self, model: Any, root: str) -> Route:
        served = ServedHplm(
            model.tenant, model.hplm, 1, model.digest, "classify", ROOT, ("table",), {}, "", False
        )
        return Route(self.executors[ROOT], CHAIN, served)


@dataclass
class Simulation:
    """A worker's loop with a simulated engine and queue. ``ask`` first, then ``run``."""

    took: StepCosts = field(default_factory=lambda: StepCosts(fixed_s=0.004, token_s=0.00015))
    cores: int = 2
    rows: int = 32
    backlog_rows: int = 512
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.start = self.clock.now
        self.engine = SimulatedEngine(self.clock, self.took, cores=self.cores)
        self.queue = SimulatedQueue(self.clock)
        self.catalogue = SimulatedCatalogue(self.engine, self.weights)
        self._numbers = count()
        self.alone = Lock()
        consumer, timing = cast("RequestConsumer", self.queue), LoopTiming(backlog_rows=self.backlog_rows)
        outbox = Outbox(consumer, clock=self.clock.time)
        self.scheduler = EncoderScheduler(
            cast("EncoderCatalogue", self.catalogue),
            outbox,
            limits=BatchLimits(rows=self.rows),
            timing=timing,
            clock=self.clock,
        )
        self.loop = ServingLoop(
            consumer, self.scheduler, outbox, timing=timing, alone=self.alone, clock=self.clock
        )

    def ask(
        self,
        tenant: str,
        at: float,
        *,
        tokens: Iterable[int] = (60,),
        within_s: float = 60.0,
        background: bool = False,
        abandoned: bool = False,
        escalating: bool = False,
    ) -> str:
        """A request of that tenant ``at`` seconds after the start; its id. ``tokens``: of each text.
        ``escalating``: those shorter than SURE_FROM go on from the tables."""
        arrives = self.start + at
        request = InferRequest(
            id=f"{tenant}-{next(self._numbers)}",
            tenant=tenant,
            hplm="model",
            version=1,
            digest=tenant,
            root=ROOT,
            sequences=tuple(TokenSequence(np.zeros(length, "<i4").tobytes()) for length in tokens),
            deadline=arrives + within_s,
            enqueued_at=arrives,
            reply_to="replies",
            dispatcher=Dispatcher("classes") if escalating else None,
        )
        self.queue.ask(request, background=background, abandoned=abandoned)
        return request.id

    def run(self) -> None:
        """Until everything that was asked is answered."""
        turns = 0
        while len(self.queue.replies) < len(self.queue.sent) or self.clock.now < self.start:
            self.loop.step()
            turns += 1
            assert turns < 1_000_000, "some requests have no answer"
        for _ in range(3):  # for answers that are one too many
            self.loop.step()

    def waited(self, *tenants: str) -> list[float]:
        """Seconds from a request to its answer, in the order of the answers."""
        return [
            at - self.queue.sent[request_id].enqueued_at
            for request_id, answers in self.queue.replies.items()
            for at, _ in answers
            if self.queue.sent[request_id].tenant in tenants
        ]

    def outputs(self, request_id: str) -> tuple[SequenceOutput, ...]:
        """What its only answer says of each text."""
        [(_, reply)] = self.queue.replies[request_id]
        return reply.outputs

    def code(self, request_id: str) -> str:
        """The code of its only answer's error, "" for a result."""
        [(_, reply)] = self.queue.replies[request_id]
        return reply.error.code if reply.error else ""


def poisson(draw: random.Random, rate: float, until: float) -> list[float]:
    """Arrivals at random, so many a second on average."""
    at, times = 0.0, list[float]()
    while (at := at + draw.expovariate(rate)) < until:
        times.append(at)
    return times
