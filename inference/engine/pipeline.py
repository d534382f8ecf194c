"""What of a batch is done ahead of its turn, and by whom (paper sections 6.1 and 6.2, figure 10)."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from inference.engine.pipelining import Pipelining, Swapping
from inference.engine.trace import Lane, Trace
from inference.hplm.pet_batch import BatchedLayer, BatchedPets

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Timed(Generic[Result]):
    """What a stage gave, and how many seconds it was at work."""

    value: Result
    seconds: float


class Stage(Generic[Result]):
    """A piece of work for one batch: under way in a thread, or still to be done by whoever asks for it."""

    def __init__(self, work: Callable[[], Result], pool: ThreadPoolExecutor | None) -> None:
        self._work = work
        self._future: Future[Timed[Result]] | None = None if pool is None else pool.submit(self._do)

    def result(self) -> Timed[Result]:
        """What it gave; raises what it raised."""
        return self._do() if self._future is None else self._future.result()

    def _do(self) -> Timed[Result]:
        started = time.perf_counter()
        value = self._work()
        return Timed(value, time.perf_counter() - started)


class Pipeline:
    """The threads that work ahead, one for each lane, and the trace of all lanes. Shared by the executors of
    a worker; `close` it."""

    def __init__(self, pipelining: Pipelining | None = None, trace: Trace | None = None) -> None:
        self.pipelining = pipelining or Pipelining()
        self.trace = trace or Trace()
        ahead = self.pipelining.swapping is not Swapping.NONE
        self._retrieval = ThreadPoolExecutor(1, "retrieval") if self.pipelining.retrieval else None
        self._adapters = ThreadPoolExecutor(1, "adapters") if ahead else None
        self._batches = 0

    def number(self) -> int:
        """A number for the next batch."""
        self._batches += 1
        return self._batches

    def retrieve(self, batch: int, work: Callable[[], Result]) -> Stage[Result]:
        """Look up, ahead where that is wanted."""
        return Stage(self._traced("retrieval", batch, "retrieve", work), self._retrieval)

    def acquire(self, batch: int, work: Callable[[], Result]) -> Stage[Result]:
        """Find the adapters, ahead where that is wanted."""
        return Stage(self._traced("adapters", batch, "acquire", work), self._adapters)

    def feed(self, batch: int, pets: BatchedPets, layers: int, device: torch.device) -> "LayerFeed":
        """The adapters layer by layer; asked for by `acquire`'s work, in its thread."""
        feed = LayerFeed(pets, layers, device)

        fine = self._adapters is not None and self.pipelining.swapping is Swapping.FINE

        def load() -> None:
            for index in range(layers):
                with self.trace.span("adapters", batch, f"layer {index} of"):
                    feed.load(index, late=fine)

        if self._adapters is not None and fine:
            self._adapters.submit(load)
        else:
            load()
        return feed

    def close(self) -> None:
        """End the threads, after what they have begun."""
        for pool in (self._retrieval, self._adapters):
            if pool is not None:
                pool.shutdown(cancel_futures=True)

    def _traced(self, lane: Lane, batch: int, name: str, work: Callable[[], Result]) -> Callable[[], Result]:
        def traced() -> Result:
            with self.trace.span(lane, batch, name):
                return work()

        return traced


class LayerFeed:
    """The PETs of a batch whose layers arrive while others compute. A layer that is asked for before it is
    there is waited for; what went wrong with it is raised to whoever asks."""

    def __init__(self, pets: BatchedPets, layers: int, device: torch.device) -> None:
        self.late_s = 0.0
        """Seconds that the layers took, where they were not loaded by whoever asked for them."""
        self._pets, self._device = pets, device
        self._arrivals: list[Future[torch.cuda.Event | None]] = [Future() for _ in range(layers)]
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def load(self, index: int, *, late: bool = False) -> None:
        """Bring one layer's adapters."""
        started = time.perf_counter()
        arrival = self._arrivals[index]
        try:
            arrival.set_result(self._load(index))
        except Exception as error:  # noqa: BLE001 - whoever waits for the layer must hear of it
            arrival.set_exception(error)
        if late:
            self.late_s += time.perf_counter() - started

    def layer(self, index: int) -> BatchedLayer:
        """The adapters of one layer, once they are there."""
        copied = self._arrivals[index].result()
        if copied is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(copied)
            for rows in self._pets.load(index):
                rows.record_stream(current)
        return self._pets.layer(index)

    def _load(self, index: int) -> torch.cuda.Event | None:
        if self._stream is None:
            self._pets.load(index)
            return None
        with torch.cuda.stream(self._stream):
            self._pets.load(index)
            copied: torch.cuda.Event = self._stream.record_event()
            return copied
