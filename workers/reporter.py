"""What a training function tells the world while it works, and how the world stops it."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from tenants.base.child_process import WorkerStopping, is_stopping
from versiontree.jobs.services.transitions import LeaseLost
from workers.jobs.outcome import plain
from workers.lease import Event, JobLease, Report
from workers.training.progress import Cancelled

METRICS_EVENT_EVERY_S = 2.0
ETA_AFTER_S = 2.0
ETA_AFTER_PROGRESS = 0.02


class DatabaseReporter:
    """The training functions' `Reporter`, writing to a job row through its `JobLease`.

    `plan`: the stages in the order they come, each with the share of the whole that it takes, so that the bar
    moves evenly. A stage that is not planned leaves the bar where it is. A stage whose first news is that it
    stands well past its first step goes on from an earlier attempt.
    """

    def __init__(
        self,
        keeper: JobLease,
        plan: Sequence[tuple[str, float]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keeper = keeper
        self._plan = plan
        self._place = -1
        self._clock = clock
        self._started = clock()
        self._metrics_told_at = -math.inf
        self._planned = False
        self._stage = ""
        self._total = 1
        self._step = 0
        self._metrics: dict[str, Any] = {}
        self._untold = False
        self._progress = 0.0
        self._earned = 0.0
        self._begun = False

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` steps begins."""
        self._tell_metrics()
        self._stage, self._total, self._step, self._metrics = name, max(total, 1), 0, {}
        self._begun = False
        names = [planned for planned, _ in self._plan]
        self._planned = name in names[self._place + 1 :]
        if self._planned:
            self._place = names.index(name, self._place + 1)
        self._advance_bar()
        self._keeper.tell(self._report(), Event("stage", name, {"stage": name, "total": total}))
        self.check()

    def advance(self, step: int, **metrics: float) -> None:
        """The stage stands at `step`; `metrics` join those it told before."""
        before, found_done = self._progress, not self._begun and step > 1
        self._step, self._begun = step, True
        self._metrics |= plain(metrics)
        self._untold = self._untold or bool(metrics)
        self._advance_bar()
        if not found_done:
            self._earned += self._progress - before
        self._keeper.tell(self._report())
        if self._clock() - self._metrics_told_at >= METRICS_EVENT_EVERY_S:
            self._tell_metrics()
        self.check()

    def check(self) -> None:
        """Raise when the work must stop: LeaseLost, Cancelled or WorkerStopping."""
        if self._keeper.lost:
            raise LeaseLost
        if self._keeper.cancel_requested:
            raise Cancelled
        if is_stopping():
            raise WorkerStopping

    def _tell_metrics(self) -> None:
        if not self._untold:
            return
        self._untold = False
        self._metrics_told_at = self._clock()
        data = {"stage": self._stage, "step": self._step, "total": self._total, **self._metrics}
        self._keeper.tell(self._report(), Event("metrics", "", data))

    def _advance_bar(self) -> None:
        if not self._planned:
            return
        shares = [share for _, share in self._plan]
        done = sum(shares[: self._place]) + shares[self._place] * min(self._step / self._total, 1.0)
        self._progress = done / sum(shares)

    def _report(self) -> Report:
        return Report(self._progress, self._stage, dict(self._metrics), self._eta_seconds())

    def _eta_seconds(self) -> float | None:
        """From what this attempt did in its time: what an earlier one had done already was no work of its."""
        spent = self._clock() - self._started
        if spent < ETA_AFTER_S or self._earned < ETA_AFTER_PROGRESS:
            return None
        return spent * (1 - self._progress) / self._earned
