"""Aliases: movable names for the versions of a model."""

from typing import Final

from django.conf import settings
from django.db import models

from tenants.base.managers import TenantScopedManager
from versiontree.tree.models.constraints import slug_check
from versiontree.tree.models.hplm import Hplm
from versiontree.tree.models.version import Version

DEFAULT_ALIAS: Final = "default"


class Alias(models.Model):
    """A name such as ``default`` or ``production``; it points at a ready version of its own model."""

    hplm = models.ForeignKey(Hplm, on_delete=models.CASCADE, related_name="aliases", verbose_name="model")
    name = models.CharField(max_length=63)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="aliases")
    moved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    moved_at = models.DateTimeField()

    unscoped = models.Manager()
    objects = TenantScopedManager(tenant_path="hplm__tenant")

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "aliases"
        constraints = [
            models.UniqueConstraint(fields=["hplm", "name"], name="alias_name_is_unique"),
            slug_check("alias_name_is_a_slug"),
        ]

    def __str__(self) -> str:
        return f"@{self.name}"


class AliasMove(models.Model):
    """One move of an alias: where it pointed before, where after; an empty side means it was not there."""

    hplm = models.ForeignKey(Hplm, on_delete=models.CASCADE, related_name="alias_moves", verbose_name="model")
    name = models.CharField(max_length=63)
    from_version = models.ForeignKey(
        Version, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    to_version = models.ForeignKey(Version, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    reason = models.CharField(max_length=200, blank=True, default="")
    moved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    moved_at = models.DateTimeField()

    unscoped = models.Manager()
    objects = TenantScopedManager(tenant_path="hplm__tenant")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["hplm", "name"], name="alias_move_model_name")]

    def __str__(self) -> str:
        return f"@{self.name} moved"
