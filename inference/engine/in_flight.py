"""A batch between its beginning and its end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.engine.adapters import Adapters
from inference.engine.pipeline import BatchTask
from inference.engine.rows import Row, StageSeconds
from inference.hplm.lower_states import LowerLayersOutput
from inference.hplm.plot_lookup import LookupResult


class GivenUpError(Exception):
    """Nobody waited for the batch any more when it was its turn to be computed."""


class BatchOutputs(NamedTuple):
    """What was computed of a batch: its states at the cut, the mean final states that were asked for by the
    place of their row, and the logits of each row. escalated: by its place, each row that goes on to the
    level FULL, and the tokens [T] bool that the upper layers then compute (None: all)."""

    states: LowerLayersOutput
    means: Mapping[int, NDArray[np.float32]]
    logits: list[NDArray[np.float32]]
    escalated: Mapping[int, NDArray[np.bool_] | None]


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
