"""Tenants, who belongs to them, and how much they may use."""

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from tenants.base.managers import TenantScopedManager

GIGABYTE = 1_000_000_000


def rate(
    what: str, otherwise: str = "the installation's own limit"
) -> "models.PositiveIntegerField[int | None, int | None]":
    """A column: so many a minute, or as usual."""
    return models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=f"{what} in a minute. Empty: {otherwise}.",
    )


class Quota(models.Model):
    """How much a tenant may have and use. Its row is also the lock for counting against it."""

    tenant = models.OneToOneField("accounts.Tenant", on_delete=models.CASCADE, related_name="quota")
    max_domains = models.PositiveIntegerField(default=3, db_default=3)
    max_models = models.PositiveIntegerField("max models", default=50, db_default=50)
    max_storage_bytes = models.PositiveBigIntegerField(
        default=5 * GIGABYTE,
        db_default=5 * GIGABYTE,
        help_text="Of uploads; a new version also counts what the tenant's versions hold as artifacts.",
    )
    max_requests_per_day = models.PositiveIntegerField(default=1_000_000, db_default=1_000_000)
    max_active_jobs = models.PositiveIntegerField(default=10, db_default=10)
    max_api_keys = models.PositiveIntegerField(
        "max API keys", default=100, db_default=100, help_text="That are neither revoked nor expired."
    )
    max_invitations_per_day = models.PositiveIntegerField(
        default=50, db_default=50, help_text="Links that are made and sent, those sent again among them."
    )
    requests_per_minute = rate("Infer requests")
    tokens_per_minute = rate("Tokens of infer requests")
    manage_per_minute = rate("Requests to the manage API")

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(requests_per_minute__gt=0, tokens_per_minute__gt=0, manage_per_minute__gt=0),
                name="quota_rates_are_above_0",
            ),
        )

    def __str__(self) -> str:
        return f"quota of {self.tenant}"
