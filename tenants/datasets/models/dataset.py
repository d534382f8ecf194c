"""Corpora (plain texts) and datasets (labeled examples)."""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager

SHA256_PATTERN = r"^[0-9a-f]{64}$"
NAME_PATTERN = r"^\S([^\r\n\t]*\S)?$"


class Corpus(models.Model):
    """A corpus, stored in canonical form (UTF-8, one text a line). Without a tenant it is the platform's.

    ``sha256`` and ``size_bytes`` are those of the canonical file. The report has those of the uploaded file.
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
                fields=("tenant", "name"),
                nulls_distinct=False,
                name="one_corpus_per_tenant_and_name",
                violation_error_message="There is already a corpus of this name.",
            ),
            models.CheckConstraint(
                condition=Q(name__regex=NAME_PATTERN),
                name="corpus_name_is_plain",
                violation_error_message="A name is one line, with no space at either end.",
            ),
            models.CheckConstraint(
                condition=Q(sha256__regex=SHA256_PATTERN),
                name="corpus_sha256_is_hex",
                violation_error_message="A SHA-256 digest has 64 lower-case hexadecimal digits.",
            ),
            models.CheckConstraint(
                condition=Q(size_bytes__gt=0, rows__gt=0, words__gt=0),
                name="corpus_is_not_empty",
                violation_error_message="A corpus must not be empty.",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Task(models.TextChoices):
    """The task of a model: that of its dataset, or embeddings alone, for which nothing is trained."""

    CLASSIFICATION = "classification", "Text classification"
    MULTILABEL = "multilabel", "Multi-label classification"
    REGRESSION = "regression", "Regression"
    TAGGING = "tagging", "Token tagging"
    QUESTION_ANSWERING = "question_answering", "Question answering"
    GENERATION = "generation", "Text generation"
    CHAT = "chat", "Chat"
    EMBEDDING = "embedding", "Embeddings"


DATASET_TASKS: Final = tuple(task for task in Task if task != Task.EMBEDDING)
DATASET_TASK_CHOICES: Final = [(task.value, task.label) for task in DATASET_TASKS]
GENERATIVE_TASKS: Final = frozenset({Task.GENERATION, Task.CHAT})
"""The tasks of models that write text. They stand on decoder roots, all other models on encoder roots."""
TASKS_WITHOUT_LABELS: Final = frozenset(
    {Task.REGRESSION, Task.QUESTION_ANSWERING, Task.EMBEDDING, *GENERATIVE_TASKS}
)
"""The tasks whose models give no labels."""


class Split(models.TextChoices):
    """The split: train for training, dev for choosing a checkpoint, test for the final metrics."""

    TRAIN = "train", "Train"
    DEV = "dev", "Dev"
    TEST = "test", "Test"


class Dataset(models.Model):
    """Labelled examples of one task, or prompts with completions, or conversations.

    ``labels`` are the class labels or kinds of span, sorted; ``value`` for regression, ``start`` and ``end``
    for question answering, ``text`` for generation and chat. With ``pairs`` each row has two texts.
    ``leaks_allowed`` means that the splits overlap more than the limit, and that the uploader allowed it.
    """

    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.PROTECT, related_name="datasets")
    name = models.CharField(max_length=100)
    task = models.CharField(max_length=20, choices=DATASET_TASK_CHOICES)
    labels = models.JSONField(default=list, editable=False)
    pairs = models.BooleanField(default=False, db_default=False, editable=False)
    leaks_allowed = models.BooleanField(default=False, db_default=False, editable=False)
    report = models.JSONField(default=dict, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "name"),
                name="one_dataset_per_tenant_and_name",
                violation_error_message="There is already a dataset of this name.",
            ),
            models.CheckConstraint(
                condition=Q(name__regex=NAME_PATTERN),
                name="dataset_name_is_plain",
                violation_error_message="A name is one line, with no space at either end.",
            ),
            models.CheckConstraint(
                condition=Q(task__in=[task.value for task in DATASET_TASKS]),
                name="dataset_task_is_known",
                violation_error_message="The task is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(labels__contains=[]) & ~Q(labels=[]),
                name="dataset_has_labels",
                violation_error_message="A dataset needs at least one label.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


class DatasetSplit(models.Model):
    """The rows of one split, stored as canonical JSON lines. Each split is one file."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="splits")
    split = models.CharField(max_length=8, choices=Split.choices)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    rows = models.PositiveBigIntegerField()

    unscoped = models.Manager()
    objects = TenantScopedManager(tenant_path="dataset__tenant")

    class Meta:
        ordering = ("dataset", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("dataset", "split"),
                name="one_file_per_dataset_and_split",
                violation_error_message="The dataset already has a file for this split.",
            ),
            models.CheckConstraint(
                condition=Q(split__in=Split.values),
                name="dataset_split_is_known",
                violation_error_message="The split must be train, dev or test.",
            ),
            models.CheckConstraint(
                condition=Q(sha256__regex=SHA256_PATTERN),
                name="split_sha256_is_hex",
                violation_error_message="A SHA-256 digest has 64 lower-case hexadecimal digits.",
            ),
            models.CheckConstraint(
                condition=Q(size_bytes__gt=0, rows__gt=0),
                name="split_is_not_empty",
                violation_error_message="A split must not be empty.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.dataset}: {self.split}"
