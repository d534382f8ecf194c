"""What the demo has made in this installation, and what is wanted of it."""

from typing import Final

from django.db import models
from django.db.models import Q

from tenants.base.managers import TenantScopedManager

THE_DEMO: Final = 1
"""The key of the only row of `Demo`."""


class Goal(models.TextChoices):
    """What the background job of the demo works towards. ``REBUILT``: removed first, then built."""

    BUILT = "built", "Built"
    REMOVED = "removed", "Removed"
    REBUILT = "rebuilt", "Removed and built again"


class Demo(models.Model):
    """The demo of this installation: one row, or none if it was never asked for.

    ``options`` are those of `demo.options.DemoOptions`. ``error`` says why the last build or removal ended
    without reaching its goal.
    """

    goal = models.CharField(max_length=7, choices=Goal.choices)
    options = models.JSONField(default=dict)
    error = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(pk=THE_DEMO), name="demo_is_one", violation_error_message="There is one demo."
            ),
            models.CheckConstraint(
                condition=Q(goal__in=Goal.values),
                name="demo_goal_is_known",
                violation_error_message="The goal is unknown.",
            ),
        ]

    def __str__(self) -> str:
        return f"demo, {self.get_goal_display().lower()}"


class DemoPart(models.Model):
    """A part of the demo, such as a root or a model, by the version of its recipe, with the rows that were
    made for it. The rows that people make beside them are theirs.

    ``ready_at`` is when it was first complete. From then on it is not completed again: what people do with it
    is theirs to do.
    """

    name = models.CharField(max_length=127, unique=True)
    version = models.PositiveSmallIntegerField()
    tenant = models.ForeignKey("accounts.Tenant", null=True, on_delete=models.PROTECT, related_name="+")
    corpus = models.ForeignKey("datasets.Corpus", null=True, on_delete=models.SET_NULL, related_name="+")
    dataset = models.ForeignKey("datasets.Dataset", null=True, on_delete=models.SET_NULL, related_name="+")
    root = models.ForeignKey("tree.Root", null=True, on_delete=models.SET_NULL, related_name="+")
    domain = models.ForeignKey("tree.Domain", null=True, on_delete=models.SET_NULL, related_name="+")
    hplm = models.ForeignKey("tree.Hplm", null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name
