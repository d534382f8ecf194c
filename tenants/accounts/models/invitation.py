"""Invitations: links by which a person becomes a member of a tenant."""

from datetime import datetime
from hashlib import sha256

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from tenants.accounts.models.tenant import Role, Tenant
from tenants.base.managers import TenantScopedManager

MAX_EMAIL_LENGTH = 254


class InvitationState(models.TextChoices):
    """waiting -> accepted, withdrawn or replaced. Expired invitations are still waiting."""

    WAITING = "waiting", "Waiting"
    ACCEPTED = "accepted", "Accepted"
    WITHDRAWN = "withdrawn", "Withdrawn"
    REPLACED = "replaced", "Replaced by a new link"


class Invitation(models.Model):
    """An invitation link for one e-mail address. Only a hash of its token is stored.

    An invitation that is sent again gets a new row.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(max_length=MAX_EMAIL_LENGTH, help_text="In lower-case letters.")
    role = models.CharField(max_length=16, choices=Role.choices)
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    state = models.CharField(
        max_length=16, choices=InvitationState.choices, default=InvitationState.WAITING, editable=False
    )
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True, editable=False)

    unscoped = models.Manager()
    objects = TenantScopedManager()

    class Meta:
        ordering = ("-created_at", "-pk")
        indexes = (models.Index(fields=("tenant", "-created_at"), name="invitations_by_tenant_and_time"),)
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "email"),
                condition=Q(state=InvitationState.WAITING),
                name="one_waiting_invitation_per_tenant_and_email",
                violation_error_message="This address already has an open invitation to the tenant.",
            ),
            models.CheckConstraint(
                condition=Q(role__in=Role.values),
                name="invitation_role_is_known",
                violation_error_message="The role must be owner, developer or viewer.",
            ),
            models.CheckConstraint(
                condition=Q(state__in=InvitationState.values),
                name="invitation_state_is_known",
                violation_error_message="The state of the invitation is unknown.",
            ),
            models.CheckConstraint(
                condition=Q(state=InvitationState.WAITING, ended_at=None)
                | (~Q(state=InvitationState.WAITING) & Q(ended_at__isnull=False)),
                name="invitation_has_ended_or_waits",
                violation_error_message="An invitation has an end exactly when it is no longer open.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.email} to {self.tenant}"

    @property
    def is_expired(self) -> bool:
        """Whether ``expires_at`` has passed, in any state."""
        moment: datetime = self.expires_at
        return moment <= timezone.now()

    @property
    def is_open(self) -> bool:
        """Whether the link can still be accepted."""
        return self.state == InvitationState.WAITING and not self.is_expired


def token_digest(token: str) -> str:
    """The hash of a token, as it is stored. Tokens are long and random, so it needs no salt."""
    return sha256(token.encode()).hexdigest()
