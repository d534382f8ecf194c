"""The lease of a running job, renewed by a background thread.

The thread has its own database connection. It renews the lease, saves the job's progress and events, and
checks for cancellation. The work itself never uses the database: it hands its progress to `JobLease`.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection

from inference.periodic_thread import PeriodicThread
from versiontree.jobs.services.lifecycle import job_event, job_heartbeat
from versiontree.jobs.services.transitions import LeaseLost

log = logging.getLogger(__name__)

LEASE_S = 30.0
RENEW_INTERVAL_S = 5.0
MIN_WRITE_INTERVAL_S = 1.0
"""Progress is saved at most this often."""
SLACK_S: Final = 5.0
SLACK_SHARE: Final = 0.2
"""A shown end is wrong if the estimated end is later by more than this share of the time left."""
SETTLE_S: Final = 5.0
SETTLE_SHARE: Final = 0.05
"""An estimate settles in this share of the time left, if its end moves by less than half of that."""


class TimeLeft:
    """Decides which estimates of the time left are shown, so that the figure only falls.

    The shown end never moves to a later moment. If an estimate lies clearly after it, nothing is shown until
    the estimates have settled. The first ones have to settle, too.
    """

    def __init__(self) -> None:
        self._ends_at = -math.inf
        self._settled_at = math.inf
        self._is_shown = False

    def shown(self, now: float, estimate: float | None) -> float | None:
        """The seconds left to show at ``now`` for an estimate made then; None if it cannot be trusted yet."""
        if estimate is None:
            return None
        ends_at, settle = now + estimate, max(SETTLE_S, SETTLE_SHARE * estimate)
        slack = max(SLACK_S, SLACK_SHARE * estimate) if self._is_shown else settle / 2
        if ends_at > self._ends_at + slack:
            self._ends_at, self._settled_at = ends_at, now + settle
        self._ends_at = min(self._ends_at, ends_at)
        self._is_shown = now >= self._settled_at
        return max(0.0, self._ends_at - now) if self._is_shown else None


@dataclass(slots=True)
class Progress:
    """The latest progress of a job, with an estimate of the time left that `TimeLeft` may withhold."""

    progress: float = 0.0
    stage: str = ""
    metrics: dict[str, object] = field(default_factory=dict)
    eta_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An entry for the job's history."""

    kind: str
    message: str
    data: Mapping[str, object]


class JobLease:
    """Context manager around the work of a claimed job, which checks `lost` and `cancel_requested`."""

    def __init__(
        self, *, job_id: UUID, worker: str, lease_s: float = LEASE_S, interval_s: float = RENEW_INTERVAL_S
    ) -> None:
        self.cancel_requested = False
        self.lost = False
        self._job_id = job_id
        self._worker = worker
        self._lease_s = lease_s
        self._renewed_at = time.monotonic()
        self._progress = Progress()
        self._time_left = TimeLeft()
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._thread = PeriodicThread(
            f"lease-{job_id}",
            self._renew,
            interval_s=interval_s,
            gap_s=MIN_WRITE_INTERVAL_S,
            at_end=self._finish,
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()

    def update(self, progress: Progress, event: Event | None = None) -> None:
        """Save `progress` (and `event`) within about a second."""
        with self._lock:
            self._progress = progress
            if event is not None:
                self._events.append(event)
        self._thread.wake()

    def flush(self) -> None:
        """Save the latest progress and events now, in the caller's thread."""
        with self._write_lock:
            if not self.lost:
                self._write()

    def _renew(self) -> bool:
        try:
            self.flush()
        except Exception:
            log.exception("The lease of job %s is no longer renewed", self._job_id)
            self.lost = True
        return not self.lost

    def _finish(self) -> None:
        self._renew()
        connection.close()

    def _write(self) -> None:
        with self._lock:
            progress = self._progress
        started = time.monotonic()
        try:
            self.cancel_requested = job_heartbeat(
                job_id=self._job_id,
                worker=self._worker,
                lease_s=self._lease_s,
                progress=progress.progress,
                stage=progress.stage,
                metrics=progress.metrics,
                eta=self._time_left.shown(started, progress.eta_seconds),
            )
            self._renewed_at = started
            self._write_events()
        except LeaseLost:
            self.lost = True
        except (DatabaseError, InterfaceError) as error:
            # The database may come back before the lease expires; after that another worker may own the job.
            log.warning("Job %s could not be renewed: %s", self._job_id, error)
            connection.close()
            self.lost = time.monotonic() - self._renewed_at > self._lease_s

    def _write_events(self) -> None:
        while self._events:
            event = self._events[0]
            job_event(job_id=self._job_id, kind=event.kind, message=event.message, data=dict(event.data))
            self._events.popleft()
