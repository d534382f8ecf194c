"""Keeping a claimed job ours while it runs.

One thread per job, on a database connection of its own, renews the lease, writes down how far the job is and
learns whether somebody wants it stopped. The work itself never touches the database: it leaves what it has to
say here.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection

from inference.periodic_thread import PeriodicThread
from versiontree.jobs.services.lifecycle import job_event, job_heartbeat
from versiontree.jobs.services.transitions import LeaseLost

log = logging.getLogger(__name__)

LEASE_S = 30.0
RENEW_EVERY_S = 5.0
WRITE_GAP_S = 1.0
"""Progress is written this often at most, however fast the job reports."""


@dataclass(slots=True)
class Report:
    """What a job last said about itself."""

    progress: float = 0.0
    stage: str = ""
    metrics: dict[str, object] = field(default_factory=dict)
    eta_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One line for the job's history."""

    kind: str
    message: str
    data: Mapping[str, object]


class JobLease:
    """Context manager around the work of one claimed job, which reads `lost` and `cancel_requested`."""

    def __init__(
        self, *, job_id: UUID, worker: str, lease_s: float = LEASE_S, every_s: float = RENEW_EVERY_S
    ) -> None:
        self.cancel_requested = False
        self.lost = False
        self._job_id = job_id
        self._worker = worker
        self._lease_s = lease_s
        self._renewed_at = time.monotonic()
        self._report = Report()
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._thread = PeriodicThread(
            f"lease-{job_id}",
            self._renew,
            interval_s=every_s,
            gap_s=WRITE_GAP_S,
            at_end=self._finish,
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()

    def tell(self, report: Report, event: Event | None = None) -> None:
        """Leave `report` (and `event`) to be written within about a second."""
        with self._lock:
            self._report = report
            if event is not None:
                self._events.append(event)
        self._thread.wake()

    def flush(self) -> None:
        """Write what was told, now and in the caller's thread: what comes next must stand after it."""
        with self._writing:
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
            report = self._report
        started = time.monotonic()
        try:
            self.cancel_requested = job_heartbeat(
                job_id=self._job_id,
                worker=self._worker,
                lease_s=self._lease_s,
                progress=report.progress,
                stage=report.stage,
                metrics=report.metrics,
                eta=report.eta_seconds,
            )
            self._renewed_at = started
            self._write_events()
        except LeaseLost:
            self.lost = True
        except (DatabaseError, InterfaceError) as error:
            # The database may come back before the lease ends; after that the job is somebody else's.
            log.warning("Job %s could not be renewed: %s", self._job_id, error)
            connection.close()
            self.lost = time.monotonic() - self._renewed_at > self._lease_s

    def _write_events(self) -> None:
        while self._events:
            event = self._events[0]
            job_event(job_id=self._job_id, kind=event.kind, message=event.message, data=dict(event.data))
            self._events.popleft()
