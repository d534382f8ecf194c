"""What of a batch is done ahead of its turn, and by whom (paper sections 6.1 and 6.2, figure 10)."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from inference.engine.compute_threads import ComputeThreads, thread_pool
from inference.engine.pipelining import Pipelining, Swapping
from inference.engine.trace import StageName, Trace
from inference.hplm.heads import Head
from inference.hplm.pet_batch import SegmentLayer, SegmentPets

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Timed(Generic[Result]):
    """What a stage gave, and how many seconds it was at work."""

    value: Result
    seconds: float


class Stage(Generic[Result]):
    """A piece of work for one batch: under way where ``submit`` has it done, or still to be done by whoever
    asks for it first. ``then`` goes on with what it gave, once that can be had and before the thread does
    anything else."""

    def __init__(
        self,
        work: Callable[[], Result],
        submit: Callable[[Callable[[], None]], "Future[None]"] | None,
        then: Callable[[Result], None] = lambda _: None,
    ) -> None:
        self.seconds = 0.0
        """That it was at work, whatever came of it."""
        self._work, self._then = work, then
        self._given: Future[Timed[Result]] = Future()
        self._job = None if submit is None else submit(self._do)

    def result(self) -> Timed[Result]:
        """What it gave; raises what it raised."""
        if self._job is None and not self._given.done():
            self._do()
        return self._given.result()

    def when_done(self, call: Callable[[], object]) -> None:
        """Call it once there is a result, whatever it is, from the thread that has it."""
        self._given.add_done_callback(lambda _: call())

    def wait_if_begun(self) -> None:
        """Wait until it is done or known that it never will be, unless nobody has asked for it."""
        if self._job is not None:
            wait([self._given])

    def forget(self) -> None:
        """Drop its work, and what that gave or raised, if it is done; then it can be asked for no more."""
        if self._given.done():
            self._work, self._then = _nothing, lambda _: None  # they hold the layers that the batch needed
            self._given = Future()
            self._given.cancel()

    def cancel(self) -> None:
        """Do not begin it, unless it was begun."""
        if self._job is not None and self._job.cancel():
            self._given.cancel()

    def _do(self) -> None:
        started = time.perf_counter()
        try:
            value = self._work()
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result must hear of it
            self.seconds = time.perf_counter() - started
            self._given.set_exception(error)
            return
        self.seconds = time.perf_counter() - started
        self._given.set_result(Timed(value, self.seconds))
        self._then(value)


def _nothing() -> Any:
    raise CancelledError


class Pipeline:
    """The threads that work ahead, one a stage, and the trace of all stages. Shared by the executors of
    a worker; `close` it."""

    def __init__(self, pipelining: Pipelining | None = None, trace: Trace | None = None) -> None:
        self.pipelining = pipelining or Pipelining()
        self.trace = trace or Trace()
        ahead = self.pipelining.swapping is not Swapping.NONE
        self._retrieval = thread_pool("retrieval", 1) if self.pipelining.retrieval else None
        self._adapters = thread_pool("adapters", 1) if ahead else None
        self._threads = (
            ComputeThreads(self.pipelining.parallel_batches) if self.pipelining.parallel_batches else None
        )
        self._batches = 0
        self._last_afterwards: Future[None] | None = None

    @property
    def at_rest(self) -> bool:
        """Whether nothing of what was to be done ``afterwards`` is left to do."""
        return self._last_afterwards is None or self._last_afterwards.done()

    def number(self) -> int:
        """A number for the next batch."""
        self._batches += 1
        return self._batches

    def retrieve(self, batch: int, work: Callable[[], Result]) -> Stage[Result]:
        """Look up, ahead where that is wanted."""
        return Stage(self._traced("retrieval", batch, "retrieve", work), _submit(self._retrieval))

    def acquire(
        self, batch: int, work: Callable[[], Result], then: Callable[[Result], None] = lambda _: None
    ) -> Stage[Result]:
        """Find the adapters, ahead where that is wanted, and ``then`` bring their layers: before those of the
        next batch are looked for, which would make this one wait."""
        return Stage(self._traced("adapters", batch, "acquire", work), _submit(self._adapters), then)

    def compute(self, work: Callable[[], Result], *, alone: bool = False) -> Stage[Result]:
        """Compute: in a thread of its own where there is one, else by whoever asks for it. ``alone``: with
        all cores."""
        return Stage(work, None if self._threads is None else partial(self._threads.submit, alone=alone))

    def feed(
        self,
        batch: int,
        pets: SegmentPets,
        layers: int,
        device: torch.device,
        heads: Callable[[], list[Head]] = list,
    ) -> "LayerFeed":
        """The adapters layer by layer: all there, or, where they are to come while others compute, to be
        brought by whoever asked for it."""
        fine = self.pipelining.swapping is Swapping.FINE
        feed = LayerFeed(
            pets,
            layers,
            device,
            heads,
            late=fine,
            span=lambda n: self.trace.span("adapters", batch, f"layer {n} of"),
        )
        if not fine:
            feed.bring()
        return feed

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do it once all that was acquired ahead by now is there, and wait for nothing."""
        if self._adapters is None:
            work()
        else:
            self._last_afterwards = self._adapters.submit(work)

    def close(self) -> None:
        """End the threads, after what they have begun. What computes may still wait for the others."""
        if self._threads is not None:
            self._threads.close()
        for pool in (self._retrieval, self._adapters):
            if pool is not None:
                pool.shutdown(cancel_futures=True)

    def _traced(
        self, stage: StageName, batch: int, name: str, work: Callable[[], Result]
    ) -> Callable[[], Result]:
        def traced() -> Result:
            with self.trace.span(stage, batch, name):
                return work()

        return traced


def _submit(pool: ThreadPoolExecutor | None) -> Callable[[Callable[[], None]], "Future[None]"] | None:
    return None if pool is None else pool.submit


@cache
def _copy_stream(device: torch.device) -> Any:
    """One for all batches of a device: whoever waits for a copy has waited for all that were made before it,
    as those of PETs that are there already."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class LayerFeed:
    """The PETs of a batch whose layers arrive while others compute. A layer that is asked for before it is
    there is waited for; what went wrong with it is raised to whoever asks."""

    def __init__(
        self,
        pets: SegmentPets,
        layers: int,
        device: torch.device,
        heads: Callable[[], list[Head]],
        *,
        late: bool,
        span: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        """``heads`` gives the head of each row on the device; they come with the last layer. ``late`` says
        whether layers come after the batch was acquired; ``span`` traces one of them."""
        self.late_s = 0.0
        """Seconds that the layers took, where they came late."""
        self._pets, self._device, self._late, self._span = pets, device, late, span
        self._bring_heads, self._heads = heads, list[Head]()
        self._arrivals: list[Future[torch.cuda.Event | None]] = [Future() for _ in range(layers)]
        self._stream = _copy_stream(device) if device.type == "cuda" else None

    def bring(self) -> None:
        """Bring the adapters of all layers, one after the other, unless they are there."""
        for index, arrival in enumerate(self._arrivals):
            if not arrival.done():
                with self._span(index):
                    self._bring(index, arrival)

    def layer(self, index: int) -> SegmentLayer:
        """The adapters of one layer, once they are there."""
        self._use(index, lambda: self._pets.load(index))
        return self._pets.layer(index)

    def heads(self) -> list[Head]:
        """The head of each row, once they are there."""
        self._use(-1, lambda: [tensor for head in self._heads for tensor in head.tensors().values()])
        return self._heads

    def _use(self, index: int, tensors: Callable[[], list[Tensor]]) -> None:
        """Let the current stream wait for what came with a layer, and keep it while that stream needs it."""
        copied = self._arrivals[index].result()
        if copied is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(copied)
            for tensor in tensors():
                tensor.record_stream(current)

    def _bring(self, index: int, arrival: "Future[torch.cuda.Event | None]") -> None:
        started = time.perf_counter()
        try:
            copied = self._load(index)
        except Exception as error:  # noqa: BLE001 - whoever waits for the layer must hear of it
            arrival.set_exception(error)
            return
        if self._late:
            self.late_s += time.perf_counter() - started
        arrival.set_result(copied)

    def _load(self, index: int) -> torch.cuda.Event | None:
        if self._stream is None:
            self._copy(index)
            return None
        with torch.cuda.stream(self._stream):
            self._copy(index)
            copied: torch.cuda.Event = self._stream.record_event()
            return copied

    def _copy(self, index: int) -> None:
        if index == len(self._arrivals) - 1:
            self._heads = self._bring_heads()
        self._pets.load(index)
