"""Fine-tunings: what a client of the OpenAI conventions asked for, and what became of it."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.base.managers import TenantScopedManager
from versiontree.tree.models.hplm import Hplm
from versiontree.tree.models.version import Version


class FineTuningState(models.TextChoices):
    """validating -> begun, failed or cancelled. Of one that has begun, the version and its jobs tell."""

    VALIDATING = "validating", "Validating files"
    BEGUN = "begun", "Begun"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class FineTuning(models.Model):
    """Files that are to become a dataset, and of it a version: a new model called ``name`` below ``parent``,
    or a further version of ``model``.

    ``model`` is what the client called it; the ids of files stay when the files are deleted. ``options`` is
    what the dataset takes besides, ``settings`` what the training does. ``asked`` is shown as it was sent.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey("accounts.Tenant", on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    api_key = models.ForeignKey("accounts.ApiKey", on_delete=models.SET_NULL, null=True, related_name="+")
    model = models.CharField(max_length=200)
    parent = models.ForeignKey(Version, on_delete=models.CASCADE, null=True, related_name="+")
    hplm = models.ForeignKey(Hplm, on_delete=models.CASCADE, null=True, related_name="+")
    name = models.CharField(max_length=63)
    training_file = models.UUIDField()
    validation_file = models.UUIDField(null=True)
    options = models.JSONField(default=dict)
    settings = models.JSONField(default=dict)
    asked = models.JSONField(default=dict)
    state = models.CharField(
        max_length=10, choices=FineTuningState.choices, default=FineTuningState.VALIDATING
    )
    attempts = models.PositiveIntegerField(default=0)
    version = models.ForeignKey(Version, on_delete=models.CASCADE, null=True, related_name="fine_tunings")
    error = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    dispatched_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=FineTuningState.values), name="fine_tuning_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(state="begun", version__isnull=False) | (~Q(state="begun") & Q(version=None)),
                name="fine_tuning_begun_with_its_version",
            ),
            models.CheckConstraint(
                condition=Q(parent=None) ^ Q(hplm=None), name="fine_tuning_of_a_parent_or_an_hplm"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "-created_at"], name="fine_tuning_tenant_newest"),
            models.Index(
                fields=["dispatched_at"], condition=Q(state="validating"), name="fine_tuning_validating"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} as {self.name}"
