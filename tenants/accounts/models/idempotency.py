"""What was answered to requests with an idempotency key."""

from django.db import models
from django.db.models.functions import Now

from tenants.accounts.models.tenant import Tenant
from tenants.base.managers import TenantScopedManager


class IdempotentResponse(models.Model):
    """An answer, for whoever sends the same request with the same key once more.

    ``place`` stands for who asked, where, and the key; ``body`` for what was asked; ``answer`` is sealed: it
    may hold a secret that is shown only once.
    """

    place = models.CharField(primary_key=True, max_length=64, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+")
    body = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    answer = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "place")
        indexes = (
            models.Index(fields=("tenant", "-created_at"), name="kept_answers_of_tenant"),
            models.Index(fields=("created_at",), name="kept_answers_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.status} of {self.created_at:%Y-%m-%d %H:%M}"
