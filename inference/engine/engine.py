"""What serving needs of whoever computes the batches of a root: a protocol, and the counters it keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.engine.batcher import StepCosts
from inference.engine.in_flight import BatchCallbacks, InFlightBatch
from inference.engine.rows import Outcome, Row
from inference.hplm.root import Root


@dataclass(slots=True)
class Counters:
    """What one or several engines have done so far. ``slot_mismatches`` must stay 0."""

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
