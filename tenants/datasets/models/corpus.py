"""Corpora: raw text, for domains and roots."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager

SHA256_PATTERN = r"^[0-9a-f]{64}$"
NAME_PATTERN = r"^\S([^\r\n\t]*\S)?$"


class Corpus(models.Model):
    """One uploaded text, stored in canonical form (UTF-8, one text a line). No tenant: the platform's.

    ``sha256`` and ``size_bytes`` are those of the canonical file; the report holds the upload's own.
    """

    tenant = models.ForeignKey(
        "accounts.Tenant", on_delete=models.PROTECT, null=True, blank=True, related_name="corpora"
    )
    name = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64, editable=False)
    size_bytes = models.PositiveBigIntegerField(editable=False)
    rows = models.PositiveBigIntegerField(editable=False)
    words = models.PositiveBigIntegerField(editable=False)
    report = models.JSONField(default=dict, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())

    unscoped = models.Manager()
    objects = TenantScopedManager(shares_platform_rows=True)

    class Meta:
        verbose_name_plural = "corpora"
        ordering = ("-created_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "name"), nulls_distinct=False, name="one_corpus_per_tenant_and_name"
            ),
            models.CheckConstraint(condition=Q(name__regex=NAME_PATTERN), name="corpus_name_is_plain"),
            models.CheckConstraint(condition=Q(sha256__regex=SHA256_PATTERN), name="corpus_sha256_is_hex"),
            models.CheckConstraint(
                condition=Q(size_bytes__gt=0, rows__gt=0, words__gt=0), name="corpus_is_not_empty"
            ),
        )

    def __str__(self) -> str:
        return self.name
