"""Files that come in piece by piece, before anything is made of them."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models.corpus import SHA256_PATTERN

LONGEST_FILENAME = 150
LONGEST_MARK = 100


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
    filename = models.CharField(max_length=LONGEST_FILENAME)
    mark = models.CharField(max_length=LONGEST_MARK, blank=True, default="")
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
