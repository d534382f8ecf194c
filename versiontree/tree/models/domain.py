"""Roots, and domains: named branches of a root."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from tenants.base.managers import TenantScopedManager
from versiontree.names import slug_check
from versiontree.tree.root_kind import RootKind


class Root(models.Model):
    """The top of one version tree. Every domain and model below it shares its upper layers.

    A trigger refuses changes of its kind.
    """

    Kind = RootKind

    name = models.CharField(max_length=63, unique=True)
    kind = models.CharField(
        max_length=7, choices=RootKind.choices, default=RootKind.ENCODER, db_default=RootKind.ENCODER
    )
    source = models.CharField(
        max_length=1024, help_text="A local checkpoint folder, a GGUF file of a decoder, or a hub id."
    )
    license = models.CharField(max_length=100, blank=True, default="", db_default="")
    source_url = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Where it was published."
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(
        "retired",
        null=True,
        blank=True,
        help_text="Since then nothing new is built on it. What is there already is served as before.",
    )
    is_callable = models.BooleanField(
        "callable",
        default=True,
        db_default=True,
        help_text="Tenants can call it by its name: a decoder for chats and completions, an encoder for "
        "embeddings.",
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            slug_check("root_name_is_a_slug"),
            models.CheckConstraint(
                condition=Q(kind__in=RootKind.values),
                name="root_kind_is_known",
                violation_error_message="The kind must be encoder or decoder.",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Domain(models.Model):
    """Domain knowledge on top of a root. A domain without a tenant is the platform's, visible to every tenant
    once it is published."""

    root = models.ForeignKey(Root, on_delete=models.PROTECT, related_name="domains")
    tenant = models.ForeignKey(
        "accounts.Tenant", null=True, blank=True, on_delete=models.PROTECT, related_name="domains"
    )
    name = models.CharField(max_length=63)
    description = models.TextField(blank=True, default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    published_at = models.DateTimeField(
        "published",
        null=True,
        blank=True,
        default=timezone.now,
        help_text="Platform domains: when tenants could first see it. Until then only administrators do.",
    )

    unscoped = models.Manager()
    objects = TenantScopedManager(shares_platform_rows=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["root", "tenant", "name"],
                nulls_distinct=False,
                name="domain_name_is_unique",
                violation_error_message="There is already a domain of this name.",
            ),
            slug_check("domain_name_is_a_slug"),
        ]

    def __str__(self) -> str:
        return f"{self.root.name}/{self.name}"
