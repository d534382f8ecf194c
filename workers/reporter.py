"""The `Reporter` of a job: saves progress through its lease, and raises when the job must stop."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from tenants.base.child_process import WorkerStopping, is_stopping
from versiontree.jobs.services.transitions import LeaseLost
from versiontree.tree.selectors.past_jobs import START_STAGE
from workers.jobs.outcome import to_json
from workers.lease import Event, JobLease, Progress
from workers.training.progress import Cancelled

METRICS_EVENT_INTERVAL_S = 2.0
ETA_AFTER_S = 2.0
ETA_AFTER_PROGRESS = 0.02


class DatabaseReporter:
    """Reports the progress of a training function to its job.

    plan: the stages in order, each with its share of the time, so that the progress bar moves evenly. A first
    stage `START_STAGE` is the time before any other. Stages that are not planned do not move the bar. If the
    first report of a stage is beyond step 1, the stage was resumed.
    """

    def __init__(
        self,
        lease: JobLease,
        plan: Sequence[tuple[str, float]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = lease
        self._plan = plan
        self._start_share = plan[0][1] / _total(plan) if plan[0][0] == START_STAGE else 0.0
        self._stage_index = -1
        self._clock = clock
        self._started = clock()
        self._metrics_saved_at = -math.inf
        self._is_planned = False
        self._stage = ""
        self._total = 1
        self._step = 0
        self._metrics: dict[str, Any] = {}
        self._has_new_metrics = False
        self._progress = 0.0
        self._progress_made = 0.0
        self._has_reported = False

    def start_stage(self, name: str, total: int) -> None:
        """Start a stage of `total` steps."""
        self._save_metrics()
        self._stage, self._total, self._step, self._metrics = name, max(total, 1), 0, {}
        self._has_reported = False
        names = [planned for planned, _ in self._plan]
        self._is_planned = name in names[self._stage_index + 1 :]
        if self._is_planned:
            self._stage_index = names.index(name, self._stage_index + 1)
        self._advance_bar()
        self._lease.update(self._current_progress(), Event("stage", name, {"stage": name, "total": total}))
        self.raise_if_cancelled()

    def report(self, step: int, **metrics: float) -> None:
        """Report that `step` steps of the stage are done; `metrics` are merged with earlier ones."""
        before, resumed = self._progress, not self._has_reported and step > 1
        self._step, self._has_reported = step, True
        self._metrics |= to_json(metrics)
        self._has_new_metrics = self._has_new_metrics or bool(metrics)
        self._advance_bar()
        if not resumed:
            self._progress_made += self._progress - before
        self._lease.update(self._current_progress())
        if self._clock() - self._metrics_saved_at >= METRICS_EVENT_INTERVAL_S:
            self._save_metrics()
        self.raise_if_cancelled()

    def raise_if_cancelled(self) -> None:
        """Raise when the work must stop: LeaseLost, Cancelled or WorkerStopping."""
        if self._lease.lost:
            raise LeaseLost
        if self._lease.cancel_requested:
            raise Cancelled
        if is_stopping():
            raise WorkerStopping

    def _save_metrics(self) -> None:
        if not self._has_new_metrics:
            return
        self._has_new_metrics = False
        self._metrics_saved_at = self._clock()
        data = {"stage": self._stage, "step": self._step, "total": self._total, **self._metrics}
        self._lease.update(self._current_progress(), Event("metrics", "", data))

    def _advance_bar(self) -> None:
        if not self._is_planned:
            return
        done = _total(self._plan[: self._stage_index])
        done += self._plan[self._stage_index][1] * min(self._step / self._total, 1.0)
        self._progress = min(done / _total(self._plan), 1.0)

    def _current_progress(self) -> Progress:
        return Progress(self._progress, self._stage, dict(self._metrics), self._eta_seconds())

    def _eta_seconds(self) -> float | None:
        """Estimated from the progress of this attempt, without that of earlier ones."""
        elapsed = self._clock() - self._started
        if elapsed < ETA_AFTER_S or self._progress_made < ETA_AFTER_PROGRESS:
            return None
        return elapsed * (1 - self._progress) / (self._start_share + self._progress_made)


def _total(plan: Sequence[tuple[str, float]]) -> float:
    return sum(share for _, share in plan)
