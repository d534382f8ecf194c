"""Evaluations: what a version answered to the test rows of a dataset."""

from django.db import models

from tenants.base.managers import TenantScopedManager
from versiontree.tree.models.artifact import Artifact
from versiontree.tree.models.version import Version


class Evaluation(models.Model):
    """The answers of a version to the rows of one file, ``test`` being its sha256, in an artifact.

    Evaluated anew, a version has the newer answers in place of these. The dataset may be gone; ``dataset``
    is what it was called.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="+")
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="evaluations")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="evaluations")
    test = models.CharField(max_length=64)
    dataset = models.CharField(max_length=100)
    made_at = models.DateTimeField(auto_now=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ["-made_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["version", "test"], name="evaluation_of_version_once"),
            models.CheckConstraint(
                condition=models.Q(test__regex="^[0-9a-f]{64}$"), name="evaluation_test_is_sha256"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} on {self.dataset}"
