"""A tenant's named model (an hPLM in the papers), its aliases, and fine-tunings of it."""

import uuid
from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.base.managers import TenantScopedManager
from tenants.datasets.models import Task
from versiontree.names import slug_check

DEFAULT_ALIAS: Final = "default"
MAX_DESCRIPTION_LENGTH: Final = 5000
MAX_CANARY_PERCENT: Final = 99


class Hplm(models.Model):
    """A leaf of the version tree. Deleting a model frees its name; its rows stay for the record."""

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
        help_text="Inference workers keep the versions of its aliases in memory.",
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
                violation_error_message="The tenant already has a model of this name.",
            ),
            models.CheckConstraint(
                condition=models.Q(task__in=Task.values),
                name="hplm_task_is_known",
                violation_error_message="The task is unknown.",
            ),
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


class Alias(models.Model):
    """A movable name, such as ``default`` or ``production``, for a ready version of its model.

    While it has a ``canary``, another ready version, that one answers ``canary_percent`` of its requests.
    """

    hplm = models.ForeignKey(Hplm, on_delete=models.CASCADE, related_name="aliases", verbose_name="model")
    name = models.CharField(max_length=63)
    version = models.ForeignKey("tree.Version", on_delete=models.PROTECT, related_name="aliases")
    moved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    moved_at = models.DateTimeField()
    canary = models.ForeignKey(
        "tree.Version", null=True, blank=True, on_delete=models.PROTECT, related_name="canary_of"
    )
    canary_percent = models.PositiveSmallIntegerField(null=True, blank=True)
    canary_started_at = models.DateTimeField(null=True, blank=True)
    canary_counts_before = models.JSONField(
        default=dict,
        blank=True,
        db_default={},
        help_text="What both versions had answered on the day of the start before it, by version number.",
    )

    unscoped = models.Manager()
    objects = TenantScopedManager(tenant_path="hplm__tenant")

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "aliases"
        constraints = [
            models.UniqueConstraint(
                fields=["hplm", "name"],
                name="alias_name_is_unique",
                violation_error_message="The model already has an alias of this name.",
            ),
            models.CheckConstraint(
                condition=Q(canary=None, canary_percent=None, canary_started_at=None)
                | Q(
                    ~Q(canary=models.F("version")),
                    canary__isnull=False,
                    canary_percent__range=(1, MAX_CANARY_PERCENT),
                    canary_started_at__isnull=False,
                ),
                name="alias_canary_is_another_version",
                violation_error_message="A canary is another version, with 1 to 99 percent of the requests.",
            ),
            slug_check("alias_name_is_a_slug"),
        ]

    def __str__(self) -> str:
        return f"@{self.name}"


class AliasMove(models.Model):
    """One move of an alias. ``from_version`` is empty if it was created, ``to_version`` if it was removed."""

    hplm = models.ForeignKey(Hplm, on_delete=models.CASCADE, related_name="alias_moves", verbose_name="model")
    name = models.CharField(max_length=63)
    from_version = models.ForeignKey(
        "tree.Version", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    to_version = models.ForeignKey(
        "tree.Version", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
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


class FineTuningState(models.TextChoices):
    """validating -> started, failed or cancelled. Once started, the version and its jobs hold the state."""

    VALIDATING = "validating", "Validating files"
    STARTED = "started", "Started"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Canceled"


class FineTuning(models.Model):
    """A fine-tuning job of the OpenAI API: its files become a dataset, and the dataset a version.

    The version is the first of a new model called ``name`` below ``parent``, or the next one of ``hplm``.
    ``model`` is the name that the client sent. ``training_file`` and ``validation_file`` are ids, kept when
    the files are deleted. ``options`` are those of the dataset, ``settings`` those of the training, and
    ``request_fields`` are the fields of the request that the API returns. ``quick``: the new model gets a
    quick version, too.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    api_key = models.ForeignKey("accounts.ApiKey", on_delete=models.SET_NULL, null=True, related_name="+")
    model = models.CharField(max_length=200)
    parent = models.ForeignKey("tree.Version", on_delete=models.CASCADE, null=True, related_name="+")
    hplm = models.ForeignKey(Hplm, on_delete=models.CASCADE, null=True, related_name="+")
    name = models.CharField(max_length=63)
    training_file = models.UUIDField()
    validation_file = models.UUIDField(null=True)
    options = models.JSONField(default=dict)
    settings = models.JSONField(default=dict)
    request_fields = models.JSONField(default=dict)
    quick = models.BooleanField(default=False, db_default=False)
    state = models.CharField(
        max_length=10, choices=FineTuningState.choices, default=FineTuningState.VALIDATING
    )
    version = models.ForeignKey(
        "tree.Version", on_delete=models.CASCADE, null=True, related_name="fine_tunings"
    )
    error = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    results_deleted_at = models.DateTimeField(null=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=FineTuningState.values),
                name="fine_tuning_state_is_known",
                violation_error_message="The state of the fine-tuning is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(state="started", version__isnull=False) | (~Q(state="started") & Q(version=None)),
                name="fine_tuning_version_when_started",
                violation_error_message="A fine-tuning has a version exactly when it has started.",
            ),
            models.CheckConstraint(
                condition=Q(parent=None) ^ Q(hplm=None),
                name="fine_tuning_of_a_parent_or_an_hplm",
                violation_error_message="A fine-tuning has either a parent or a model.",
            ),
        ]
        indexes = [models.Index(fields=["tenant", "-created_at"], name="fine_tuning_tenant_newest")]

    def __str__(self) -> str:
        return f"{self.model} as {self.name}"
