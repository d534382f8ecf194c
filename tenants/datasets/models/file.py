"""Files that are kept as they were sent, until something is made of them, or for whoever fetches them."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models.dataset import SHA256_PATTERN
from tenants.datasets.models.upload import MAX_FILENAME_LENGTH


class FilePurpose(models.TextChoices):
    """What a file is for, in the words of the OpenAI conventions."""

    FINE_TUNE = "fine-tune", "Rows for a fine-tuning"
    BATCH = "batch", "Requests of a batch"
    BATCH_OUTPUT = "batch_output", "Answers of a batch"


UPLOADABLE_PURPOSES = (FilePurpose.FINE_TUNE, FilePurpose.BATCH)
"""Those that clients send; the others are made here."""


class File(models.Model):
    """A file of a tenant, its bytes addressed by their content; it never changes. All of the tenant see it.

    ``expires_at``: when it is deleted, if it is.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="files")
    purpose = models.CharField(max_length=20, choices=FilePurpose.choices)
    filename = models.CharField(max_length=MAX_FILENAME_LENGTH)
    sha256 = models.CharField(max_length=64, db_index=True)
    size_bytes = models.PositiveBigIntegerField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True, db_index=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(condition=Q(purpose__in=FilePurpose.values), name="file_purpose_is_known"),
            models.CheckConstraint(condition=Q(sha256__regex=SHA256_PATTERN), name="file_sha256_is_hex"),
        )

    def __str__(self) -> str:
        return self.filename


class PartedFileState(models.TextChoices):
    """pending -> completed or cancelled."""

    PENDING = "pending", "Pending"
    COMPLETED = "completed", "Completed"
    CANCELLED = "cancelled", "Cancelled"


class PartedFile(models.Model):
    """A file to be of ``size_bytes``. Its parts are uploads with its ``mark``; completed, it is ``file``,
    kept for ``life_s`` seconds if that is not null."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    api_key = models.ForeignKey("accounts.ApiKey", on_delete=models.SET_NULL, null=True, related_name="+")
    purpose = models.CharField(max_length=20, choices=FilePurpose.choices)
    filename = models.CharField(max_length=MAX_FILENAME_LENGTH)
    size_bytes = models.PositiveBigIntegerField()
    life_s = models.PositiveIntegerField(null=True)
    state = models.CharField(max_length=9, choices=PartedFileState.choices, default=PartedFileState.PENDING)
    file = models.ForeignKey(File, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    expires_at = models.DateTimeField(db_index=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=PartedFileState.values), name="parted_file_state_is_known"
            ),
            models.CheckConstraint(condition=Q(size_bytes__gt=0), name="parted_file_is_not_empty"),
        )

    def __str__(self) -> str:
        return self.filename

    @property
    def mark(self) -> str:
        """What its parts are known by."""
        return f"part of {self.pk.hex}"
