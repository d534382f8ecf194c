"""Files that were announced and come in parts, as the OpenAI conventions have it."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models.file import File, FilePurpose
from tenants.datasets.models.upload import LONGEST_FILENAME


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
    filename = models.CharField(max_length=LONGEST_FILENAME)
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
