"""Tenants and their members."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.base.managers import TenantScopedManager

SLUG_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$"
SLUG_RULE = "A slug is 1 to 50 lower-case letters, digits and hyphens, with no hyphen at either end."
MIN_WEIGHT, MAX_WEIGHT = 0.01, 100.0
WEIGHT_RULE = f"The weight must be a number from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}."


class Tenant(models.Model):
    """An organisation or person that owns models, domains and uploads.

    From ``deletion_requested_at`` on, all its data is being deleted. After ``deletion_finished_at`` only this
    row is left, for billing.
    """

    slug = models.SlugField(max_length=50, unique=True, help_text="Lower-case letters, digits and hyphens.")
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    suspended_at = models.DateTimeField(null=True, blank=True, editable=False)
    deletion_requested_at = models.DateTimeField(null=True, blank=True, editable=False)
    deletion_finished_at = models.DateTimeField(null=True, blank=True, editable=False)
    checks_answers = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Compute a sample of the texts that were answered from tables in full too, when no other"
        " request waits, and count whether both answers agree. No texts are kept. Not charged.",
    )
    keeps_request_texts = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Keep the first 500 characters of each input with its entry in the request log. Turning"
        " this off deletes the texts.",
    )
    auto_rebase = models.BooleanField(
        default=False,
        db_default=False,
        help_text="When a domain or root has a new version, rebase the models on it by themselves.",
    )
    weight = models.FloatField(
        default=1.0,
        db_default=1.0,
        validators=[MinValueValidator(MIN_WEIGHT), MaxValueValidator(MAX_WEIGHT)],
        help_text="Share of the workers' time while several tenants send requests: 2 gets twice as much as"
        " 1. From 0.01 to 100. Applied at once.",
    )

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                condition=Q(slug__regex=SLUG_PATTERN),
                name="tenant_slug_is_plain",
                violation_error_message=SLUG_RULE,
            ),
            models.CheckConstraint(
                condition=~Q(name=""), name="tenant_has_a_name", violation_error_message="A name is required."
            ),
            models.CheckConstraint(
                condition=Q(weight__range=(MIN_WEIGHT, MAX_WEIGHT)),
                name="tenant_weight_is_in_range",
                violation_error_message=WEIGHT_RULE,
            ),
            models.CheckConstraint(
                condition=Q(deletion_requested_at=None, deletion_finished_at=None)
                | Q(deletion_requested_at__isnull=False, suspended_at__isnull=False),
                name="tenant_being_deleted_is_suspended",
                violation_error_message="A tenant that is being deleted must be suspended.",
            ),
        )

    def __str__(self) -> str:
        return self.slug

    @property
    def is_suspended(self) -> bool:
        """Whether the platform has stopped this tenant's requests."""
        return self.suspended_at is not None


class Role(models.TextChoices):
    """The role of a member. Each role includes the rights of those below it."""

    OWNER = "owner", "Owner"
    DEVELOPER = "developer", "Developer"
    VIEWER = "viewer", "Viewer"

    @property
    def rank(self) -> int:
        """A number that orders the roles, highest for owners."""
        return {Role.VIEWER: 1, Role.DEVELOPER: 2, Role.OWNER: 3}[self]

    def includes(self, other: "Role") -> bool:
        """Whether this role may do what the other may."""
        return self.rank >= other.rank


class Membership(models.Model):
    """A user's role in a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    unseen_jobs = models.PositiveIntegerField(default=0, db_default=0, editable=False)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("tenant", "user")
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "user"),
                name="one_membership_per_tenant_and_user",
                violation_error_message="This user is already a member of the tenant.",
            ),
            models.CheckConstraint(
                condition=Q(role__in=Role.values),
                name="membership_role_is_known",
                violation_error_message="The role must be owner, developer or viewer.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant}: {self.role}"
