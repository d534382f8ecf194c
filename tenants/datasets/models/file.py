"""Files of the files API and of batches, stored as they were sent."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models.dataset import SHA256_PATTERN
from tenants.datasets.models.upload import MAX_FILENAME_LENGTH


class FilePurpose(models.TextChoices):
    """The purpose of a file, as in OpenAI's files API."""

    FINE_TUNE = "fine-tune", "Rows for a fine-tuning"
    BATCH = "batch", "Requests of a batch"
    BATCH_OUTPUT = "batch_output", "Answers of a batch"


UPLOADABLE_PURPOSES = (FilePurpose.FINE_TUNE, FilePurpose.BATCH)
"""Clients upload these. Files with other purposes are created by the server."""


class File(models.Model):
    """A file of a tenant, visible to all its members and keys. Its content is stored under its sha256.

    A file never changes. Without ``expires_at`` it never expires.
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
            models.CheckConstraint(
                condition=Q(purpose__in=FilePurpose.values),
                name="file_purpose_is_known",
                violation_error_message="The purpose of the file is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(sha256__regex=SHA256_PATTERN),
                name="file_sha256_is_hex",
                violation_error_message="A SHA-256 digest has 64 lower-case hexadecimal digits.",
            ),
        )

    def __str__(self) -> str:
        return self.filename
