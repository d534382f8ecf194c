"""Resumable uploads and their checks."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models.dataset import SHA256_PATTERN, Corpus, Dataset

MAX_FILENAME_LENGTH = 150
MAX_FINGERPRINT_LENGTH = 100
MAX_METADATA_LENGTH = 4096


class Upload(models.Model):
    """A resumable upload. Its offset is the length of its file on disk, and is stored nowhere else.

    It belongs to the person or key that created it. ``fingerprint`` is chosen by the client, to find the
    upload again and resume it. ``metadata`` is the client's header ``Upload-Metadata``; the tus protocol
    returns it as it was sent. ``expected_sha256`` is what the client declared; ``sha256`` is that of the
    complete file.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="uploads")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    api_key = models.ForeignKey("accounts.ApiKey", on_delete=models.CASCADE, null=True, related_name="+")
    filename = models.CharField(max_length=MAX_FILENAME_LENGTH)
    fingerprint = models.CharField(max_length=MAX_FINGERPRINT_LENGTH, blank=True, default="")
    metadata = models.CharField(max_length=MAX_METADATA_LENGTH, blank=True, default="", db_default="")
    size_bytes = models.PositiveBigIntegerField()
    expected_sha256 = models.CharField(max_length=64, blank=True, default="")
    sha256 = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    completed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(db_index=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "id")
        constraints = (
            models.CheckConstraint(
                condition=Q(created_by=None) ^ Q(api_key=None),
                name="upload_is_of_a_person_or_a_key",
                violation_error_message="An upload is created by either a user or an API key.",
            ),
            models.CheckConstraint(
                condition=Q(completed_at=None, sha256="")
                | Q(completed_at__isnull=False, sha256__regex=SHA256_PATTERN),
                name="upload_is_complete_with_its_sha256",
                violation_error_message="An upload has a SHA-256 digest exactly when it is complete.",
            ),
        )

    def __str__(self) -> str:
        return self.filename

    @property
    def is_complete(self) -> bool:
        """Whether all bytes arrived and the checksum was verified."""
        return self.completed_at is not None


class CheckKind(models.TextChoices):
    """What the files are stored as."""

    CORPUS = "corpus", "Corpus"
    DATASET = "dataset", "Dataset"


class CheckState(models.TextChoices):
    """waiting -> running -> passed (a check without ``store``), stored, or refused (invalid files)."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Checking"
    PASSED = "passed", "Passed"
    STORED = "stored", "Stored"
    REFUSED = "refused", "Refused"


ACTIVE_STATES = (CheckState.WAITING, CheckState.RUNNING)


class UploadCheck(models.Model):
    """A check of uploads, which may store them. Small ones run in the request, large ones in background jobs.

    ``files`` maps the purpose of each file (a split, or ``file`` for a corpus) to the id of its upload;
    ``options`` are the other arguments of ``dataset_validate``. ``preview`` has the validation ``report`` and
    the first ``rows``. A refused check has an ``error``, and the invalid rows in ``row_errors``.

    ``saved_files`` has the digests of the canonical files that the check wrote, ``saved_bytes`` their size,
    and ``check_version`` the version of the check (``tenants.datasets.services.check_results``).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="upload_checks")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    api_key = models.ForeignKey("accounts.ApiKey", on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=10, choices=CheckKind.choices)
    name = models.CharField(max_length=100, blank=True)
    store = models.BooleanField()
    options = models.JSONField(default=dict)
    files = models.JSONField(default=dict)
    size_bytes = models.PositiveBigIntegerField()
    state = models.CharField(max_length=10, choices=CheckState.choices, default=CheckState.WAITING)
    preview = models.JSONField(default=dict)
    error = models.JSONField(null=True)
    row_errors = models.JSONField(default=list)
    saved_files = models.JSONField(null=True)
    saved_bytes = models.PositiveBigIntegerField(default=0, db_default=0)
    check_version = models.CharField(max_length=32, blank=True, default="", db_default="")
    corpus = models.ForeignKey(Corpus, on_delete=models.CASCADE, null=True, related_name="+")
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    finished_at = models.DateTimeField(null=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "id")
        constraints = (
            models.CheckConstraint(
                condition=Q(created_by=None) ^ Q(api_key=None),
                name="check_is_of_a_person_or_a_key",
                violation_error_message="A check is created by either a user or an API key.",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=CheckKind.values),
                name="check_kind_is_known",
                violation_error_message="The check must be of a corpus or a dataset.",
            ),
            models.CheckConstraint(
                condition=Q(state__in=CheckState.values),
                name="check_state_is_known",
                violation_error_message="The state of the check is unknown.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.state}"

    @property
    def is_active(self) -> bool:
        """Whether it is waiting or running."""
        return self.state in ACTIVE_STATES
