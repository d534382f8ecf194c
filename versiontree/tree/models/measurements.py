"""Measurements of versions: coverage of uploads, and evaluations on datasets."""

from django.db import models
from django.db.models import Q

from tenants.base.managers import TenantScopedManager
from versiontree.tree.models.artifact import Artifact
from versiontree.tree.models.version import Version


class Coverage(models.Model):
    """How many fragments of a sample of an upload a version's tables hold: as tri-grams, bi-grams, unigrams.

    Measured once, because neither side changes. ``error_message`` is the error message if measuring failed.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="+")
    corpus = models.ForeignKey(
        "datasets.Corpus", null=True, on_delete=models.CASCADE, related_name="coverages"
    )
    dataset = models.ForeignKey(
        "datasets.Dataset", null=True, on_delete=models.CASCADE, related_name="coverages"
    )
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="+")
    trigrams = models.PositiveBigIntegerField(default=0)
    bigrams = models.PositiveBigIntegerField(default=0)
    unigrams = models.PositiveBigIntegerField(default=0)
    error_message = models.CharField(max_length=300, blank=True, default="")
    measured_at = models.DateTimeField(auto_now_add=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(corpus=None) ^ Q(dataset=None),
                name="coverage_is_of_one_upload",
                violation_error_message="A coverage is of either a corpus or a dataset.",
            ),
            models.UniqueConstraint(
                fields=["corpus", "version"],
                name="coverage_of_corpus_once",
                violation_error_message="The coverage of this corpus is already measured.",
            ),
            models.UniqueConstraint(
                fields=["dataset", "version"],
                name="coverage_of_dataset_once",
                violation_error_message="The coverage of this dataset is already measured.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.corpus or self.dataset} by {self.version}"

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key: the share of tri-grams held, then that of bi-grams."""
        whole = self.fragments or 1
        return self.trigrams / whole, self.bigrams / whole

    @property
    def fragments(self) -> int:
        """How many fragments were sampled."""
        return self.trigrams + self.bigrams + self.unigrams


class Evaluation(models.Model):
    """A version's answers to the rows of one test file. The artifact holds the answers.

    Evaluating again replaces the answers. ``dataset_name`` is kept when the dataset is deleted.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="+")
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="evaluations")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="evaluations")
    test_sha256 = models.CharField(max_length=64)
    dataset_name = models.CharField(max_length=100)
    evaluated_at = models.DateTimeField(auto_now=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ["-evaluated_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["version", "test_sha256"],
                name="evaluation_of_version_once",
                violation_error_message="The version was already evaluated on this file.",
            ),
            models.CheckConstraint(
                condition=models.Q(test_sha256__regex="^[0-9a-f]{64}$"),
                name="evaluation_test_is_sha256",
                violation_error_message="A SHA-256 digest has 64 lower-case hexadecimal digits.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} on {self.dataset_name}"
