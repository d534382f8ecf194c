"""Stored responses of requests with an idempotency key."""

from django.db import models
from django.db.models.functions import Now

from tenants.accounts.models.tenant import Tenant
from tenants.base.managers import TenantScopedManager


class IdempotentResponse(models.Model):
    """A response that a repeated request with the same key gets again.

    ``key_digest`` is a digest of the caller, the path and the key; ``fingerprint`` is one of the request. The
    response is encrypted, because it may hold a secret that is shown only once.
    """

    key_digest = models.CharField(primary_key=True, max_length=64, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+")
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    encrypted_response = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "key_digest")
        indexes = (
            models.Index(fields=("tenant", "-created_at"), name="idempotent_by_tenant_and_time"),
            models.Index(fields=("created_at",), name="idempotent_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.status} of {self.created_at:%Y-%m-%d %H:%M}"
