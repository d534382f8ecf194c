"""Artifacts in the store, and the versions that use them."""

from django.db import models

from tenants.base.managers import TenantScopedManager
from versiontree.tree.models.version import Version


class Role(models.TextChoices):
    """The role of an artifact in a version, and the artifact's kind.

    ``CASCADE`` is the profile of a model whose ``HPLM`` came without one; its first evaluation fits it.
    ``ANSWERS`` belong to an evaluation.
    """

    ROOT = "root", "Root"
    LOWER = "lower", "Lower layers"
    PLOT = "plot", "PLOT"
    HPLM = "hplm", "Adapters and head"
    CASCADE = "cascade", "Cascade"
    ANSWERS = "answers", "Answers"


class Artifact(models.Model):
    """An immutable folder of the artifact store. A trigger refuses changes to its rows."""

    kind = models.CharField(max_length=8, choices=Role.choices)
    digest = models.CharField(max_length=64)
    size = models.BigIntegerField(help_text="Bytes.")
    files = models.JSONField(help_text="Relative name to sha256 and size.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "digest"],
                name="artifact_is_unique",
                violation_error_message="There is already an artifact of this kind and digest.",
            ),
            models.CheckConstraint(
                condition=models.Q(digest__regex="^[0-9a-f]{64}$"),
                name="artifact_digest_is_sha256",
                violation_error_message="A digest has 64 lower-case hexadecimal digits.",
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=Role.values),
                name="artifact_kind_is_known",
                violation_error_message="The kind of artifact is unknown.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}/{self.digest[:12]}"


class VersionArtifact(models.Model):
    """An artifact in one role of one version. Added while the version is building, fixed afterwards.

    A ready version may still get its ``CASCADE``, once.

    ``tenant`` is copied from the version, which a trigger enforces, so row security needs no join.
    """

    tenant = models.ForeignKey(
        "accounts.Tenant", null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="artifact_links")
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="version_links")
    role = models.CharField(max_length=8, choices=Role.choices)

    unscoped = models.Manager()
    objects = TenantScopedManager(shares_platform_rows=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["version", "role"],
                name="version_artifact_role_is_unique",
                violation_error_message="The version already has an artifact in this role.",
            ),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values),
                name="version_artifact_role_is_known",
                violation_error_message="The role of the artifact is unknown.",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant"], include=["version", "artifact"], name="version_artifact_of_tenant"
            )
        ]

    def __str__(self) -> str:
        return f"{self.role} of version {self.version_id}"
