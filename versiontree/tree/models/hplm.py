"""A tenant's named model (an hPLM in the papers): a leaf of the version tree."""

from typing import Final

from django.conf import settings
from django.db import models

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models import Task
from versiontree.tree.models.constraints import slug_check

LONGEST_DESCRIPTION: Final = 5000


class Hplm(models.Model):
    """A leaf of the tree; the name is free again once the model is deleted (its rows stay for the record)."""

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="hplms")
    name = models.CharField(max_length=63)
    task = models.CharField(max_length=20, choices=Task.choices)
    description = models.TextField(blank=True, default="", db_default="")
    license = models.CharField(max_length=100, blank=True, default="", db_default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    pinned_at = models.DateTimeField(
        "pinned",
        null=True,
        blank=True,
        help_text="Inference workers keep the versions that its aliases mean in memory.",
    )

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ["name"]
        verbose_name = "model"
        verbose_name_plural = "models"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(deleted_at__isnull=True),
                name="hplm_name_is_unique",
            ),
            models.CheckConstraint(condition=models.Q(task__in=Task.values), name="hplm_task_is_known"),
            slug_check("hplm_name_is_a_slug"),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "-created_at"],
                condition=models.Q(deleted_at__isnull=True),
                name="hplm_tenant_newest",
            ),
            models.Index(
                fields=["tenant"], condition=models.Q(deleted_at__isnull=False), name="hplm_deleted_of_tenant"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant.slug}/{self.name}"
