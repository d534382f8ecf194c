"""Batches: files of inputs that a model answers with low priority."""

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager

MAX_LINES: Final = 1_000_000
RETENTION: Final = timedelta(days=30)
"""How long an ended batch and its files are kept."""
INFER: Final = "/api/v1/infer"
EMBEDDINGS: Final = "/v1/embeddings"
CHAT_COMPLETIONS: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
ENDPOINTS: Final = (INFER, EMBEDDINGS, CHAT_COMPLETIONS, COMPLETIONS)
"""URLs that requests in a batch may be for."""


class BatchState(models.TextChoices):
    """The states of a batch; see ``Batch`` for their transitions."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Canceled"
    EXPIRED = "expired", "Expired"


class BatchFormat(models.TextChoices):
    """The format of the lines: an input each, or an OpenAI-style request each."""

    INPUTS = "inputs", "One input per line"
    REQUESTS = "requests", "One request per line"


ACTIVE_BATCHES: Final = (BatchState.WAITING, BatchState.RUNNING)
WITH_ERRORS: Final = "with_errors"
"""How a batch is shown that completed, though lines failed."""
BATCH_STYLE: Final[dict[str, tuple[str, str]]] = {
    BatchState.WAITING: ("Waiting", "info"),
    BatchState.RUNNING: ("Running", "primary"),
    BatchState.COMPLETED: ("Completed", "success"),
    WITH_ERRORS: ("Completed with errors", "warning"),
    BatchState.FAILED: ("Failed", "danger"),
    BatchState.CANCELLED: ("Canceled", "warning"),
    BatchState.EXPIRED: ("Expired", "warning"),
}


class Batch(models.Model):
    """A file of inputs, one a line, for one version of a model. A background job works through it, and then
    stores its output.

    ::

        waiting -> running    a worker runs the job
        running -> waiting    paused: other batches wait, or the worker stops
                -> completed  every line has a result or an error
                -> failed     it cannot continue
        both    -> cancelled | expired

    Progress: the first ``read_bytes`` of the input, which are ``read_lines``, are processed. Their output is
    the first ``results_bytes`` and ``errors_bytes`` of the two output files; bytes beyond are overwritten.
    ``lines`` counts processed lines that are not empty, of ``total_lines`` once those are counted. However
    the batch ended, its output until then can be fetched.

    With ``columns`` the input is a table: the column of each field of the model's inputs, "" for plain text.
    Its lines are its rows, and its stored results are a table with their answers, failed rows included.
    """

    State = BatchState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="batches")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    key_prefix = models.CharField(max_length=8, blank=True, default="")
    line_format = models.CharField(max_length=8, choices=BatchFormat.choices, default=BatchFormat.INPUTS)
    endpoint = models.CharField(max_length=50, blank=True, default="")
    model = models.CharField(max_length=256, blank=True, default="")
    model_name = models.CharField(max_length=100, blank=True, default="")
    version_number = models.PositiveIntegerField(null=True, blank=True)
    filename = models.CharField(max_length=150)
    input = models.ForeignKey(
        "datasets.File", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    results = models.ForeignKey(
        "datasets.File", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    errors = models.ForeignKey(
        "datasets.File", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    metadata = models.JSONField(default=dict, blank=True)
    columns = models.JSONField(default=dict, db_default={}, blank=True)
    state = models.CharField(max_length=9, choices=BatchState.choices, default=BatchState.WAITING)
    total_lines = models.PositiveIntegerField(null=True, blank=True)
    lines = models.PositiveIntegerField(default=0)
    succeeded = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    read_lines = models.PositiveIntegerField(default=0)
    read_bytes = models.PositiveBigIntegerField(default=0)
    results_bytes = models.PositiveBigIntegerField(default=0)
    errors_bytes = models.PositiveBigIntegerField(default=0)
    error_code = models.CharField(max_length=40, blank=True, default="")
    error_message = models.TextField(blank=True, default="")
    error_param = models.CharField(max_length=64, blank=True, default="")
    error_line = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        verbose_name_plural = "batches"
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=BatchState.values),
                name="batch_state_is_known",
                violation_error_message="The state of the batch is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(line_format__in=BatchFormat.values),
                name="batch_line_format_is_known",
                violation_error_message="The line format of the batch is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(lines=F("succeeded") + F("failed")),
                name="batch_lines_are_answered_once",
                violation_error_message="The number of lines must be the sum of succeeded and failed lines.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.filename} for {self.model or self.tenant}"

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ACTIVE_BATCHES

    @property
    def outcome(self) -> str:
        """The state, or WITH_ERRORS: whether all lines were answered is what people want to see."""
        return WITH_ERRORS if self.state == BatchState.COMPLETED and self.failed else self.state

    @property
    def share(self) -> float:
        """The share of lines that are processed, 0 to 1."""
        return min(1.0, self.lines / self.total_lines) if self.total_lines else 0.0

    @property
    def files_ready(self) -> bool:
        """Whether it has ended and its output files can be fetched."""
        stored = (not self.results_bytes or self.results_id) and (not self.errors_bytes or self.errors_id)
        return not self.is_active and bool(stored or not self.folder.exists())

    @property
    def folder(self) -> Path:
        """Folder of the output files until they are stored."""
        return Path(settings.HMI_UPLOAD_ROOT) / ".batches" / str(self.pk)
