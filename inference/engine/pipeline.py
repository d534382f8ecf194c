"""The pipeline of batches: lookups, adapters, computing in threads (paper sections 6.1, 6.2, figure 10)."""

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
from inference.hplm.pets.batch import SegmentLayer, SegmentPets

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Timed(Generic[Result]):
    """The result of a task, and the seconds that it ran."""

    value: Result
    seconds: float


class BatchTask(Generic[Result]):
    """A task of one batch. With ``submit`` a thread runs it; without, the first call of ``result`` does.

    ``then`` is called with the value in the same thread, after ``result`` can return it. Any thread may use a
    task with ``submit``; one without must not be used by two threads at once.
    """

    def __init__(
        self,
        work: Callable[[], Result],
        submit: Callable[[Callable[[], None]], "Future[None]"] | None,
        then: Callable[[Result], None] = lambda _: None,
    ) -> None:
        self.seconds = 0.0
        """The seconds that it ran, also if it failed."""
        self._work, self._then = work, then
        self._given: Future[Timed[Result]] = Future()
        self._job = None if submit is None else submit(self._do)

    def result(self) -> Timed[Result]:
        """Its value and time, once it has run; raises what it raised."""
        if self._job is None and not self._given.done():
            self._do()
        return self._given.result()

    def when_done(self, call: Callable[[], object]) -> None:
        """Call ``call`` when the task has ended or failed, in the thread that ran it."""
        self._given.add_done_callback(lambda _: call())

    def wait_if_begun(self) -> None:
        """Wait until a submitted task has ended or is cancelled; return at once for any other."""
        if self._job is not None:
            wait([self._given])

    def forget(self) -> None:
        """Release the work and the result of a task that has ended. ``result`` then raises CancelledError."""
        if self._given.done():
            self._work, self._then = _nothing, lambda _: None  # they hold the layers that the batch needed
            self._given = Future()
            self._given.cancel()

    def cancel(self) -> None:
        """Cancel a submitted task that has not begun."""
        if self._job is not None and self._job.cancel():
            self._given.cancel()

    def _do(self) -> None:
        started = time.perf_counter()
        try:
            value = self._work()
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self.seconds = time.perf_counter() - started
            self._given.set_exception(error)
            return
        self.seconds = time.perf_counter() - started
        self._given.set_result(Timed(value, self.seconds))
        self._then(value)


def _nothing() -> Any:
    raise CancelledError


class Pipeline:
    """The threads that prefetch for batches, one a stage, those that compute, and the trace of all stages.
    Shared by the executors of a worker; `close` it."""

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
        """Whether all work given to ``afterwards`` is done."""
        return self._last_afterwards is None or self._last_afterwards.done()

    def number(self) -> int:
        """A number for the next batch."""
        self._batches += 1
        return self._batches

    def retrieve(self, batch: int, work: Callable[[], Result]) -> BatchTask[Result]:
        """A task that looks up fragments, in a thread if retrieval is pipelined."""
        return BatchTask(self._traced("retrieval", batch, "retrieve", work), _submit(self._retrieval))

    def acquire(
        self, batch: int, work: Callable[[], Result], then: Callable[[Result], None] = lambda _: None
    ) -> BatchTask[Result]:
        """A task that finds the adapters, in a thread if they are swapped ahead, and ``then`` loads their
        layers: before those of the next batch are found, which would delay this one."""
        return BatchTask(self._traced("adapters", batch, "acquire", work), _submit(self._adapters), then)

    def compute(self, work: Callable[[], Result], *, alone: bool = False) -> BatchTask[Result]:
        """A task that computes, in a thread if batches compute in parallel. ``alone``: with all cores."""
        return BatchTask(work, None if self._threads is None else partial(self._threads.submit, alone=alone))

    def feed(
        self,
        batch: int,
        pets: SegmentPets,
        layers: int,
        device: torch.device,
        heads: Callable[[], list[Head]] = list,
    ) -> "LayerFeed":
        """The adapters layer by layer: all loaded, or, if swapping is fine-grained, for the caller to load
        while other batches compute."""
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
        """Run ``work`` after all adapters that are being acquired. Does not wait."""
        if self._adapters is None:
            work()
        else:
            self._last_afterwards = self._adapters.submit(work)

    def close(self) -> None:
        """End the threads when they have finished the tasks they began."""
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
    """The copy stream of a device, one for all batches: waiting for a copy is waiting for all earlier ones,
    such as those of PETs that are resident."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class LayerFeed:
    """The PETs of a batch whose layers arrive while others compute. One thread calls ``bring``; the one that
    computes calls ``layer`` and ``heads``, which wait for a layer and raise what went wrong with it."""

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
        """Load the adapters of all layers, one after the other, unless they are loaded."""
        for index, arrival in enumerate(self._arrivals):
            if not arrival.done():
                with self._span(index):
                    self._bring(index, arrival)

    def layer(self, index: int) -> SegmentLayer:
        """The adapters of one layer; waits until they are loaded."""
        self._use(index, lambda: self._pets.load(index))
        return self._pets.layer(index)

    def heads(self) -> list[Head]:
        """The head of each row; waits until they are loaded."""
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
        except Exception as error:  # noqa: BLE001 - `layer` raises it
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
