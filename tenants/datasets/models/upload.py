"""Files that come in piece by piece, before anything is made of them."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models.dataset import SHA256_PATTERN, Corpus, Dataset

MAX_FILENAME_LENGTH = 150


MAX_MARK_LENGTH = 100


class Upload(models.Model):
    """A file on its way. How much of it is here is the length of its file, and stands nowhere else.

    It belongs to whoever began it, a person or a key. ``mark`` is by what the client tells apart files of one
    name; ``promised_sha256`` what the whole must have; ``sha256`` what it has, once complete.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="uploads")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    api_key = models.ForeignKey("accounts.ApiKey", on_delete=models.CASCADE, null=True, related_name="+")
    filename = models.CharField(max_length=MAX_FILENAME_LENGTH)
    mark = models.CharField(max_length=MAX_MARK_LENGTH, blank=True, default="")
    size_bytes = models.PositiveBigIntegerField()
    promised_sha256 = models.CharField(max_length=64, blank=True, default="")
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
                condition=Q(created_by=None) ^ Q(api_key=None), name="upload_is_of_a_person_or_a_key"
            ),
            models.CheckConstraint(
                condition=Q(completed_at=None, sha256="")
                | Q(completed_at__isnull=False, sha256__regex=SHA256_PATTERN),
                name="upload_is_complete_with_its_sha256",
            ),
        )

    def __str__(self) -> str:
        return self.filename

    @property
    def is_complete(self) -> bool:
        """Whether all of it is here, and was compared with what was promised."""
        return self.completed_at is not None


class CheckKind(models.TextChoices):
    """What the files are to become."""

    CORPUS = "corpus", "Corpus"
    DATASET = "dataset", "Dataset"


class CheckState(models.TextChoices):
    """waiting -> running -> passed (nothing was to be stored), stored or refused."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Checking"
    PASSED = "passed", "Passed"
    STORED = "stored", "Stored"
    REFUSED = "refused", "Refused"


ACTIVE_STATES = (CheckState.WAITING, CheckState.RUNNING)


class UploadCheck(models.Model):
    """One look at uploads: what was found, or why they were refused. Small ones are looked at while the
    request waits, large ones by a worker.

    ``files`` maps what each file is for (a split, or ``file``) to the id of its upload; ``options`` is what
    the services take besides. ``found`` has the ``report`` and the first ``rows``; ``faults`` the bad rows.
    ``kept`` has the checksums of the canonical files that wait to be stored
    (``tenants.datasets.services.check_results``), and ``kept_by`` the rules by which they were made.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="upload_checks")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    api_key = models.ForeignKey("accounts.ApiKey", on_delete=models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=10, choices=CheckKind.choices)
    name = models.CharField(max_length=100, blank=True)
    stores = models.BooleanField()
    options = models.JSONField(default=dict)
    files = models.JSONField(default=dict)
    size_bytes = models.PositiveBigIntegerField()
    state = models.CharField(max_length=10, choices=CheckState.choices, default=CheckState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    found = models.JSONField(default=dict)
    refusal = models.JSONField(null=True)
    faults = models.JSONField(default=list)
    kept = models.JSONField(null=True)
    kept_bytes = models.PositiveBigIntegerField(default=0, db_default=0)
    kept_by = models.CharField(max_length=32, blank=True, default="", db_default="")
    corpus = models.ForeignKey(Corpus, on_delete=models.CASCADE, null=True, related_name="+")
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    dispatched_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "id")
        constraints = (
            models.CheckConstraint(
                condition=Q(created_by=None) ^ Q(api_key=None), name="check_is_of_a_person_or_a_key"
            ),
            models.CheckConstraint(condition=Q(kind__in=CheckKind.values), name="check_kind_is_known"),
            models.CheckConstraint(condition=Q(state__in=CheckState.values), name="check_state_is_known"),
        )
        indexes = (
            models.Index(
                fields=("dispatched_at",),
                condition=Q(state__in=("waiting", "running")),
                name="checks_at_work",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.state}"

    @property
    def is_active(self) -> bool:
        """Whether its end is still to come."""
        return self.state in ACTIVE_STATES
