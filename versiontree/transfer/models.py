"""Takeouts: exports of all data of a tenant."""

from datetime import datetime
from typing import ClassVar, Final

from django.db import models

from tenants.base.background_jobs import BackgroundKind
from versiontree.jobs.models import BACKGROUND_RETENTION, Job, JobState

SIZE: Final = "size_bytes"
"""The name of the file's size in the metrics of a takeout."""


class TakeoutState(models.TextChoices):
    """waiting -> running -> ready or failed. A ready takeout expires: its row and file are deleted."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"


TAKEOUT_STATES: Final[dict[str, TakeoutState]] = {
    JobState.WAITING: TakeoutState.WAITING,
    JobState.QUEUED: TakeoutState.WAITING,
    JobState.RUNNING: TakeoutState.RUNNING,
    JobState.SUCCEEDED: TakeoutState.READY,
    JobState.FAILED: TakeoutState.FAILED,
    JobState.CANCELLED: TakeoutState.FAILED,
}
"""The state of a takeout by the state of its job."""


class TakeoutManager(models.Manager["Takeout"]):
    """The takeouts of all tenants."""

    def get_queryset(self) -> "models.QuerySet[Takeout]":
        return super().get_queryset().filter(kind=BackgroundKind.TAKEOUT)


class Takeout(Job):
    """A background job that exports all data of a tenant as one zip file. Its subject is the tenant's id, so
    each tenant has one at a time."""

    unscoped: ClassVar[TakeoutManager] = TakeoutManager()

    class Meta:
        proxy = True
        base_manager_name = "unscoped"
        verbose_name = "data export"

    def __str__(self) -> str:
        return f"all data of {self.tenant}"

    @property
    def takeout_state(self) -> TakeoutState:
        """The state of the takeout."""
        return TAKEOUT_STATES[self.state]

    @property
    def is_ready(self) -> bool:
        """Whether its file can be downloaded."""
        return self.takeout_state == TakeoutState.READY

    @property
    def size_bytes(self) -> int:
        """The size of the file, 0 until it is ready."""
        size: int = self.metrics.get(SIZE, 0)
        return size

    @property
    def expires_at(self) -> datetime | None:
        """When its row and file are deleted."""
        return self.finished_at + BACKGROUND_RETENTION if self.finished_at else None
