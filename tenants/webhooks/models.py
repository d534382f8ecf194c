"""Webhook endpoints of tenants, and the deliveries of events to them."""

import uuid
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager

MAX_URL_LENGTH = 2000


class EventKind(models.TextChoices):
    """The type of an event, as it stands in the payload."""

    JOB_STARTED = "job.started", "A job starts"
    JOB_SUCCEEDED = "job.succeeded", "A job succeeds"
    JOB_FAILED = "job.failed", "A job fails"
    JOB_CANCELLED = "job.cancelled", "A job is canceled"
    ALIAS_MOVED = "alias.moved", "An alias moves to another version"
    VERSION_DRIFTED = "version.drifted", "Answers of a version drift"
    BATCH_COMPLETED = "batch.completed", "A batch completes"
    BATCH_FAILED = "batch.failed", "A batch fails"
    BATCH_CANCELLED = "batch.cancelled", "A batch is canceled"
    BATCH_EXPIRED = "batch.expired", "A batch expires"
    TEST = "webhook.test", "A test"


SUBSCRIBABLE: Final = tuple(kind for kind in EventKind if kind != EventKind.TEST)
"""The kinds that an endpoint may subscribe to."""


class DeliveryState(models.TextChoices):
    """waiting -> delivered, or failed after the last attempt."""

    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    FAILED = "failed", "Failed"


class WebhookEndpoint(models.Model):
    """A URL to which a tenant's events of some kinds are sent, signed with its secret.

    Secrets are encrypted (``tenants.base.encryption``). Until ``previous_until`` the previous secret signs as
    well. A worker that sends to an endpoint leases it until ``lease_expires_at``. A time in the past is that
    of the last attempt.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField("address", max_length=MAX_URL_LENGTH)
    kinds = models.JSONField(help_text="The kinds of events that are sent.")
    description = models.CharField(max_length=200, blank=True, default="")
    secret = models.TextField(editable=False)
    previous_secret = models.TextField(blank=True, default="", editable=False)
    previous_until = models.DateTimeField(null=True, blank=True, editable=False)
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_reason = models.CharField(max_length=200, blank=True, default="")
    failing_since = models.DateTimeField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
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
                violation_error_message="Choose at least one kind of event.",
            ),
            models.CheckConstraint(
                condition=~Q(secret=""),
                name="webhook_has_a_secret",
                violation_error_message="A webhook needs a secret.",
            ),
        )

    def __str__(self) -> str:
        return self.url

    @property
    def is_enabled(self) -> bool:
        """Whether events are sent to it."""
        return self.disabled_at is None

    @property
    def state(self) -> str:
        """Return active, failing or off."""
        if not self.is_enabled:
            return "off"
        return "failing" if self.failing_since else "active"

    @property
    def host(self) -> str:
        """Return the host of the address, for logs: the rest of an address is often a secret."""
        return urlsplit(self.url).hostname or ""


class WebhookDelivery(models.Model):
    """The delivery of one event to one endpoint. It is created in the transaction of the event.

    ``attempt_log`` has the results of the attempts: ``at``, ``ms``, ``status``, ``error`` and ``excerpt``
    (the beginning of the response body). ``attempts`` also counts those during which the worker died.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="webhook_deliveries")
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries")
    event_id = models.CharField(max_length=40, help_text="Sent as webhook-id; a replay has the same.")
    kind = models.CharField(max_length=20, choices=EventKind.choices)
    payload = models.JSONField()
    state = models.CharField(max_length=9, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    attempt_log = models.JSONField(default=list, blank=True)
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
                condition=Q(state__in=DeliveryState.values),
                name="delivery_state_is_known",
                violation_error_message="The state of the delivery is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=EventKind.values),
                name="delivery_kind_is_known",
                violation_error_message="The kind of event is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(state="waiting", next_attempt_at__isnull=False, finished_at=None)
                | (~Q(state="waiting") & Q(next_attempt_at=None, finished_at__isnull=False)),
                name="delivery_waits_or_has_ended",
                violation_error_message="A delivery has either a next attempt or an end.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} to {self.endpoint_id}"

    @property
    def last_attempt(self) -> dict[str, Any] | None:
        """The newest entry of the attempt log."""
        return self.attempt_log[-1] if self.attempt_log else None
