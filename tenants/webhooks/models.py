"""Webhooks: where a tenant wants to hear of events, and what was sent there."""

import uuid
from typing import Any, Final

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager

MAX_URL_LENGTH = 2000


class EventKind(models.TextChoices):
    """What may be told of."""

    JOB_STARTED = "job.started", "A job begins"
    JOB_SUCCEEDED = "job.succeeded", "A job succeeds"
    JOB_FAILED = "job.failed", "A job fails"
    JOB_CANCELLED = "job.cancelled", "A job is cancelled"
    ALIAS_MOVED = "alias.moved", "An alias moves to another version"
    BATCH_COMPLETED = "batch.completed", "A batch completes"
    BATCH_FAILED = "batch.failed", "A batch fails"
    BATCH_CANCELLED = "batch.cancelled", "A batch is cancelled"
    BATCH_EXPIRED = "batch.expired", "A batch expires"
    TEST = "webhook.test", "A test"


SUBSCRIBABLE: Final = tuple(kind for kind in EventKind if kind != EventKind.TEST)
"""A test goes to the endpoint that it is of."""


class DeliveryState(models.TextChoices):
    """waiting -> delivered, or failed after the last try."""

    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    FAILED = "failed", "Failed"


class WebhookEndpoint(models.Model):
    """One address of a tenant's, and which kinds of events are sent there, signed with its secret.

    The secrets are sealed (``tenants.base.encryption``); until ``previous_until`` the one before signs as
    well. One worker at a time sends to an endpoint: it holds it until ``sending_until``. Of one that nobody
    holds this is when it was last sent to.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField("address", max_length=MAX_URL_LENGTH)
    kinds = models.JSONField(help_text="The kinds of events that are sent there.")
    description = models.CharField(max_length=200, blank=True, default="")
    secret = models.TextField(editable=False)
    previous_secret = models.TextField(blank=True, default="", editable=False)
    previous_until = models.DateTimeField(null=True, blank=True, editable=False)
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_reason = models.CharField(max_length=200, blank=True, default="")
    failing_since = models.DateTimeField(null=True, blank=True)
    sending_until = models.DateTimeField(null=True, blank=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("created_at", "id")
        verbose_name = "webhook"
        constraints = (
            models.CheckConstraint(
                condition=Q(kinds__contains=[])
                & Q(kinds__contained_by=[kind.value for kind in SUBSCRIBABLE])
                & ~Q(kinds=[]),
                name="webhook_kinds_are_known",
            ),
            models.CheckConstraint(condition=~Q(secret=""), name="webhook_has_a_secret"),
        )

    def __str__(self) -> str:
        return self.url

    @property
    def is_enabled(self) -> bool:
        """Whether events are sent there."""
        return self.disabled_at is None


class WebhookDelivery(models.Model):
    """One event on its way to one endpoint: the outbox, and then the log.

    Written in the transaction of what it tells of. ``tries`` holds what came of each: ``at``, ``ms``,
    ``status``, ``error`` and ``excerpt`` (the beginning of the answer's body). A worker that dies over a try
    leaves none, though ``attempts`` counts it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="webhook_deliveries")
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries")
    event_id = models.CharField(max_length=40, help_text="Sent as webhook-id; a replay has the same.")
    kind = models.CharField(max_length=20, choices=EventKind.choices)
    payload = models.JSONField()
    state = models.CharField(max_length=9, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    tries = models.JSONField(default=list, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name_plural = "webhook deliveries"
        indexes = (
            models.Index(fields=("endpoint", "-created_at"), name="delivery_endpoint_newest"),
            models.Index(
                fields=("endpoint", "next_attempt_at"), condition=Q(state="waiting"), name="delivery_due"
            ),
            models.Index(fields=("created_at",), name="delivery_by_age"),
        )
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=DeliveryState.values), name="delivery_state_is_known"
            ),
            models.CheckConstraint(condition=Q(kind__in=EventKind.values), name="delivery_kind_is_known"),
            models.CheckConstraint(
                condition=Q(state="waiting", next_attempt_at__isnull=False, finished_at=None)
                | (~Q(state="waiting") & Q(next_attempt_at=None, finished_at__isnull=False)),
                name="delivery_waits_or_has_ended",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} to {self.endpoint_id}"

    @property
    def last_try(self) -> dict[str, Any] | None:
        """What came of the newest try whose end is known."""
        return self.tries[-1] if self.tries else None
