"""The audit log. A trigger refuses changes and deletions of events.

The exception is the deletion of all data of a tenant. Its events keep their verb and time, and everything
else is blanked, in a transaction that sets ``hmi.deleted_tenant``.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager


class AuditEvent(models.Model):
    """An audit event. Without a tenant it is the platform's; without actor and key the system did it."""

    tenant = models.ForeignKey(
        "accounts.Tenant", on_delete=models.PROTECT, null=True, blank=True, related_name="audit_events"
    )
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    api_key = models.ForeignKey(
        "accounts.ApiKey", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    verb = models.CharField(max_length=64, help_text='Such as "dataset.upload".')
    subject = models.CharField(max_length=200, help_text="The object of the action.")
    detail = models.JSONField(default=dict, blank=True)
    address = models.GenericIPAddressField(null=True, blank=True, help_text="The IP address of the client.")
    request_id = models.CharField(max_length=64, blank=True, default="", db_default="")
    at = models.DateTimeField(auto_now_add=True, db_default=Now())

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=("tenant", "-at"), name="audit_by_tenant_and_time"),
            models.Index(fields=("tenant", "-id"), name="audit_by_tenant_in_order"),
        )
        constraints = (
            models.CheckConstraint(
                condition=~Q(verb=""),
                name="audit_event_has_a_verb",
                violation_error_message="An audit event needs a verb.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"
