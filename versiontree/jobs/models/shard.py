"""Shards: the parts of a job that many workers share."""

from typing import Final

from django.db import models
from django.db.models import Q

from versiontree.jobs.models.job import Job


class ShardState(models.TextChoices):
    """Where a shard stands."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


MAX_ATTEMPTS: Final = 3


class JobShard(models.Model):
    """One part of one stage of a job. This row is the truth; a message is only a nudge.

    ::

        waiting -> running   a worker claimed it
        running -> done      its files are there and sealed
                -> waiting   given back, or its worker died and another takes it
                -> failed    its attempts are spent
        done    -> waiting   its files are gone

    As with jobs, a worker claims by compare-and-set and holds a lease; unlike jobs, anybody may take over a
    shard whose lease has run out, so a dead worker costs its one shard and nobody needs a reaper. ``piece``
    is the part [first, last), ``result`` says what was made of it.
    """

    State = ShardState

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="shards")
    stage = models.CharField(max_length=16)
    number = models.PositiveIntegerField()
    piece = models.JSONField()
    state = models.CharField(max_length=7, choices=ShardState.choices, default=ShardState.WAITING)
    worker = models.CharField(max_length=200, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    result = models.JSONField(default=dict, blank=True)
    error_code = models.CharField(max_length=40, blank=True, default="")
    error_message = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["job", "stage", "number"], name="shard_is_unique"),
            models.CheckConstraint(condition=Q(state__in=ShardState.values), name="shard_state_is_known"),
            models.CheckConstraint(
                condition=(Q(state="running", lease_expires_at__isnull=False) & ~Q(worker=""))
                | (~Q(state="running") & Q(lease_expires_at__isnull=True)),
                name="shard_lease_while_running",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.stage} {self.number} of job {self.job_id}"
