"""Takeouts: exports of all data of a tenant."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager


class TakeoutState(models.TextChoices):
    """waiting -> running -> ready or failed. A ready takeout expires: its row and file are deleted."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"


ACTIVE_TAKEOUTS = (TakeoutState.WAITING, TakeoutState.RUNNING)


class Takeout(models.Model):
    """An export of all data of a tenant as one zip file. ``expected_bytes`` is an estimate of its size."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="takeouts")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    state = models.CharField(max_length=8, choices=TakeoutState.choices, default=TakeoutState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    expected_bytes = models.PositiveBigIntegerField(default=0)
    written_bytes = models.PositiveBigIntegerField(default=0)
    error_message = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    dispatched_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "id")
        verbose_name = "data export"
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=TakeoutState.values),
                name="takeout_state_is_known",
                violation_error_message="The state of the takeout is unknown.",
            ),
            models.UniqueConstraint(
                fields=("tenant",),
                condition=Q(state__in=ACTIVE_TAKEOUTS),
                name="one_takeout_at_a_time_per_tenant",
                violation_error_message="A takeout of this tenant is already in progress.",
            ),
        )

    def __str__(self) -> str:
        return f"all data of {self.tenant}"

    @property
    def progress(self) -> float:
        """The share of the expected bytes that is written, 0 to 1."""
        return min(1.0, self.written_bytes / self.expected_bytes) if self.expected_bytes else 0.0

    @property
    def is_active(self) -> bool:
        """Whether it is waiting or running."""
        return self.state in ACTIVE_TAKEOUTS
