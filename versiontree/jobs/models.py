"""Jobs on the version tree, their history, and the shards that several workers share."""

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.base.background_jobs import BackgroundKind
from tenants.base.dispatch import QUICK_QUEUE, TRAINING_QUEUE
from tenants.base.managers import TenantScopedManager

if TYPE_CHECKING:
    from versiontree.tree.models import Version

__all__ = ["Job", "JobEvent", "JobShard"]


class JobKind(models.TextChoices):
    """What a job of a version does. `BackgroundKind` has the other kinds."""

    CONVERT = "convert", "Convert"
    FURTHER_PRETRAIN = "further_pretrain", "Train domain"
    BUILD_PLOT = "build_plot", "Build lookup table"
    QUICK = "quick", "Quick version"
    FINE_TUNE = "fine_tune", "Fine-tune"
    EVALUATE = "evaluate", "Evaluate"
    COMPACT = "compact", "Compact lookup tables"

    @property
    def queue(self) -> str:
        """The queue of such jobs. A machine runs one job of each queue at a time."""
        return QUICK_QUEUE if self is JobKind.QUICK else TRAINING_QUEUE


BACKGROUND_KINDS: Final = tuple(kind.value for kind in BackgroundKind)
BACKGROUND_RETENTION: Final = timedelta(days=7)
"""How long an ended background job is kept, and the file of a takeout."""


class JobState(models.TextChoices):
    """The states of a job. ``Job`` documents the transitions."""

    WAITING = "waiting", "Waiting"
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Canceled"


LEGAL_TRANSITIONS: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.WAITING: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELLED}),
    JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.QUEUED}),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.CANCELLED: frozenset({JobState.QUEUED, JobState.WAITING}),
    JobState.SUCCEEDED: frozenset(),
}

ACTIVE: Final = frozenset({JobState.WAITING, JobState.QUEUED, JobState.RUNNING})
TERMINAL: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})

# An evaluation is short and follows a long fine-tune, so it can run first without starving others.
DEFAULT_PRIORITY: Final[dict[JobKind, int]] = {kind: 0 if kind == JobKind.EVALUATE else 3 for kind in JobKind}

JOB_STATE_COLOURS: Final[dict[JobState, str]] = {
    JobState.WAITING: "neutral",
    JobState.QUEUED: "info",
    JobState.RUNNING: "primary",
    JobState.SUCCEEDED: "success",
    JobState.FAILED: "danger",
    JobState.CANCELLED: "warning",
}


class ShownJobs(models.Manager["Job"]):
    """The jobs of versions: those that pages, the API, limits and statistics of jobs have."""

    def get_queryset(self) -> "models.QuerySet[Job]":
        return super().get_queryset().filter(version__isnull=False)


class Job(models.Model):
    """One long-running job, for a version or in the background. The row is authoritative; a Celery message
    only wakes a worker.

    ::

        waiting   -> queued      the job before it succeeded
                  -> cancelled   by a user, or because the job before it failed or was cancelled
        queued    -> running     a worker claimed it
                  -> cancelled
        running   -> succeeded | failed | cancelled
                  -> queued      its worker died, or shut down
        failed    -> queued      retried
        cancelled -> queued      retried
                  -> waiting     retried while the job before it is still active

    A worker claims a queued job by compare-and-set and holds a lease that its heartbeat renews. If the lease
    expires, ``lease_recovery`` queues the job again, or fails it when no attempt is left.

    A job of a `JobKind` has a version. A background job (`BackgroundKind`) has a subject instead.
    """

    Kind = JobKind
    State = JobState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=20, choices=JobKind.choices)
    tenant = models.ForeignKey(
        "accounts.Tenant", null=True, blank=True, on_delete=models.PROTECT, related_name="jobs"
    )
    # Typed as if never NULL: only a background job has none, and whoever reads a version has a `shown` job.
    version: "models.ForeignKey[Version, Version]" = models.ForeignKey(  # type: ignore[misc]
        "tree.Version", null=True, on_delete=models.PROTECT, related_name="jobs"
    )
    subject = models.CharField(max_length=36, blank=True, default="", db_default="")
    after = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="followers"
    )
    state = models.CharField(max_length=9, choices=JobState.choices, default=JobState.WAITING)
    params = models.JSONField(default=dict, blank=True)
    priority = models.PositiveSmallIntegerField(default=0, help_text="0 runs first, 9 last.")
    attempt = models.PositiveSmallIntegerField(default=0)
    max_attempts = models.PositiveSmallIntegerField(default=3)
    worker = models.CharField(max_length=200, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    stage = models.CharField(max_length=100, blank=True, default="")
    progress = models.FloatField(default=0.0, help_text="Share of the work done, 0 to 1.")
    metrics = models.JSONField(default=dict, blank=True)
    eta_seconds = models.FloatField(null=True, blank=True)
    error_code = models.CharField(max_length=40, blank=True, default="")
    error_message = models.TextField(blank=True, default="")
    traceback = models.TextField(blank=True, default="")
    dispatches = models.PositiveIntegerField(default=0)
    dispatched_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager()
    objects = TenantScopedManager(shares_platform_rows=True)
    shown = ShownJobs()

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=JobState.values),
                name="job_state_is_known",
                violation_error_message="The state of the job is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=JobKind.values, version__isnull=False, subject="")
                | (
                    Q(kind__in=[kind.value for kind in BackgroundKind], version__isnull=True) & ~Q(subject="")
                ),
                name="job_kind_is_known",
                violation_error_message="The kind of job is unknown, or lacks its version or subject.",
            ),
            models.CheckConstraint(
                condition=(Q(state="running", lease_expires_at__isnull=False) & ~Q(worker=""))
                | (~Q(state="running") & Q(lease_expires_at__isnull=True)),
                name="job_lease_while_running",
                violation_error_message="A job has a worker and a lease exactly while it is running.",
            ),
            models.CheckConstraint(
                condition=Q(progress__gte=0.0, progress__lte=1.0),
                name="job_progress_in_0_1",
                violation_error_message="Progress must be from 0 to 1.",
            ),
            models.CheckConstraint(
                condition=Q(priority__lte=9),
                name="job_priority_in_0_9",
                violation_error_message="Priority must be from 0 to 9.",
            ),
            models.CheckConstraint(
                condition=Q(state="waiting", after__isnull=False) | ~Q(state="waiting"),
                name="job_waiting_has_after",
                violation_error_message="A waiting job must name the job that it waits for.",
            ),
            models.UniqueConstraint(
                fields=["version"],
                condition=Q(state__in=["queued", "running"]),
                name="job_one_active_per_version",
                violation_error_message="The version already has a queued or running job.",
            ),
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=Q(state__in=["queued", "running"], version__isnull=True),
                name="job_one_active_per_subject",
                violation_error_message="The same work is already queued or running.",
            ),
        ]
        indexes = [
            models.Index(fields=["lease_expires_at"], condition=Q(state="running"), name="job_running_lease"),
            models.Index(
                fields=["dispatched_at"], condition=Q(state="queued"), name="job_queued_dispatched_at"
            ),
            models.Index(fields=["tenant", "-created_at"], name="job_tenant_newest"),
            models.Index(
                fields=["tenant"],
                condition=Q(state__in=["waiting", "queued", "running"]),
                name="job_active_of_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.version or self.subject}"

    @property
    def is_active(self) -> bool:
        """Whether the job is waiting, queued or running."""
        return self.state in ACTIVE

    @property
    def expected_at(self) -> datetime | None:
        """When the job will end, from the ETA of its last heartbeat. None if that is unknown."""
        if self.eta_seconds is None or self.heartbeat_at is None:
            return None
        return self.heartbeat_at + timedelta(seconds=self.eta_seconds)


class JobEvent(models.Model):
    """One entry of a job's history. Ids only grow, so a reader continues after the last id it saw."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=40)
    message = models.TextField(blank=True, default="")
    data = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    unscoped = models.Manager()
    objects = TenantScopedManager(tenant_path="job__tenant")

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["job", "id"], name="job_event_job_id")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class ShardState(models.TextChoices):
    """The states of a shard."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


MAX_SHARD_ATTEMPTS: Final = 3


class JobShard(models.Model):
    """One part of one stage of a job, which any worker may take. The row is authoritative.

    ::

        waiting -> running   a worker claimed it
        running -> done      its files are complete and read-only
                -> waiting   released, or its worker died and another takes it
                -> failed    no attempt is left
        done    -> waiting   its files are gone

    A worker claims a shard by compare-and-set and holds a lease. Unlike with jobs, any worker may take over a
    shard whose lease has expired, so no recovery is needed. ``input_range`` is [first, last), ``result``
    describes the output.
    """

    State = ShardState

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="shards")
    stage = models.CharField(max_length=16)
    number = models.PositiveIntegerField()
    input_range = models.JSONField()
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
            models.UniqueConstraint(
                fields=["job", "stage", "number"],
                name="shard_is_unique",
                violation_error_message="The job already has a shard of this number in this stage.",
            ),
            models.CheckConstraint(
                condition=Q(state__in=ShardState.values),
                name="shard_state_is_known",
                violation_error_message="The state of the shard is unknown.",
            ),
            models.CheckConstraint(
                condition=(Q(state="running", lease_expires_at__isnull=False) & ~Q(worker=""))
                | (~Q(state="running") & Q(lease_expires_at__isnull=True)),
                name="shard_lease_while_running",
                violation_error_message="A shard has a worker and a lease exactly while it is running.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.stage} {self.number} of job {self.job_id}"
