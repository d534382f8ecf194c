"""Batches in flight: their tasks, callbacks and results, and when the next one is chosen."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from threading import Event
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from inference.engine.adapters import Adapters
from inference.engine.batcher import StepCosts
from inference.engine.pipeline import BatchTask
from inference.engine.rows import Outcome, Row, StageSeconds
from inference.hplm.lower_states import LowerLayersOutput
from inference.hplm.plot_lookup import LookupResult
from inference.hplm.root import Root

KEPT: Final = 0.9
"""The weight of a batch's times once the next batch has been learnt from."""
MARGIN: Final = 1.5
"""The next batch is chosen by so many times the time that is needed to prepare it."""


class NextBatchTiming:
    """Before which of ``layers`` upper layers the next batch is chosen: as late as possible, so that rows
    which arrive until then are in it, but early enough to look up its fragments and load its adapters."""

    def __init__(self, layers: int) -> None:
        self.layer = 0
        self._layers = layers
        self._ahead_s = self._computing_s = 0.0

    def learn(self, *, ahead_s: float, computing_s: float) -> None:
        """Learn the seconds of a batch's lookups and adapters, and of its layers. Old batches weigh less."""
        self._ahead_s = KEPT * self._ahead_s + ahead_s
        self._computing_s = KEPT * self._computing_s + computing_s
        share = MARGIN * self._ahead_s / max(self._computing_s, 1e-9)
        self.layer = max(0, self._layers - max(1, ceil(share * self._layers)))


class LayerCallback:
    """Calls ``work`` once, before one layer. ``seconds``: how long it took."""

    def __init__(self, layer: int, work: Callable[[], None]) -> None:
        self.seconds = 0.0
        self._layer, self._work = layer, work

    def before(self, layer: int) -> None:
        """Call ``work`` if this is the layer."""
        if layer == self._layer:
            started = time.perf_counter()
            self._work()
            self.seconds = time.perf_counter() - started


class GivenUpError(Exception):
    """No request waited for the batch any more when it was to be computed."""


class BatchOutputs(NamedTuple):
    """What was computed of a batch: its states at the cut, the embeddings that were asked for by the place of
    their row, and the logits of each row. escalated: the places of those that go on to the
    level FULL."""

    states: LowerLayersOutput
    embeddings: Mapping[int, NDArray[np.float32]]
    logits: list[NDArray[np.float32]]
    escalated: Collection[int]


@dataclass(frozen=True, slots=True, eq=False)
class BatchResult:
    """What a batch came to. seconds: of its stages, as many as they would be with the whole processor;
    computing_s: that passed while it was computed."""

    outputs: BatchOutputs
    seconds: StageSeconds
    computing_s: float

    @property
    def ahead_s(self) -> float:
        """Seconds that were taken before it could be computed."""
        return self.seconds.retrieval + self.seconds.adapter_load


@dataclass(frozen=True, slots=True, eq=False)
class InFlightBatch:
    """A batch that was begun: its rows, and its tasks, which may be running. The value of ``computing`` is
    None if no request waits for the batch any more, or if one of its models cannot be loaded."""

    number: int
    rows: list[Row]
    lookup: BatchTask[LookupResult]
    adapters: BatchTask[Adapters]
    computing: BatchTask[BatchResult | None]
    given_up: Event

    def forget(self) -> None:
        """Release the results of its tasks."""
        for task in (self.lookup, self.adapters, self.computing):
            task.forget()

    def when_done(self, call: Callable[[int], object]) -> None:
        """Call ``call`` with the batch's number when it is computed, in the thread that computed it."""
        self.computing.when_done(lambda: call(self.number))


@dataclass(frozen=True, slots=True)
class BatchCallbacks:
    """Callbacks of a batch. ``wanted`` is called before it is computed: whether a request still waits for it.
    ``prefetch`` is called with its number, once, between two of its layers, when it is time to begin the next
    batch: as late as leaves time for the lookups and adapters of that one. The thread that computes calls
    both; neither may raise."""

    wanted: Callable[[], bool] = field(default=lambda: True)
    prefetch: Callable[[int], None] = field(default=lambda _: None)


@dataclass(slots=True)
class Counters:
    """Counts of batches, rows and failed rows of one or several engines. ``slot_mismatches`` must stay 0."""

    batches: int = 0
    rows: int = 0
    failed: int = 0
    slot_mismatches: int = 0


class Engine(Protocol):
    """Computes batches of one root, as `Executor` does. ``costs``: what they take, for the scheduler.
    Every batch that was begun must be finished, by the thread that began it."""

    root: Root
    costs: StepCosts

    def begin(self, rows: Sequence[Row], callbacks: BatchCallbacks, *, alone: bool) -> InFlightBatch:
        """Start a batch. One that is ``alone`` has all cores."""

    def finish(self, batch: InFlightBatch) -> list[Outcome]:
        """Wait for the batch; one outcome per row, in order. Raises GivenUpError where nobody waited for it
        any more when its turn came, and DeviceLostError."""
