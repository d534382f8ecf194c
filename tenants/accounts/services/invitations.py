"""Invitations: create, resend, withdraw, accept, and send by e-mail."""

import logging
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from smtplib import SMTPException

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from tenants.accounts.models import Invitation, InvitationState, Membership, Tenant, User
from tenants.accounts.models.invitation import MAX_EMAIL_LENGTH, token_digest
from tenants.accounts.permissions import require_active
from tenants.accounts.selectors import has_verified_email, invitations_created_since
from tenants.accounts.services.members import clean_role, member_add
from tenants.audit.services import audit_record
from tenants.base.errors import ErrorCode, HmiError, require_found
from tenants.base.scope import tenant_scope
from tenants.usage.services.quotas import quota_check_invitations, quota_lock

log = logging.getLogger(__name__)

INVITATION_LIFETIME = timedelta(days=7)
INVITATION_RETENTION = timedelta(days=30)


@transaction.atomic
def invitation_create(*, tenant: Tenant, email: str, role: str, actor: User) -> tuple[Invitation, str]:
    """Create an invitation; returns it and the token of its link, which cannot be read again.

    Raises ``conflict`` for a member or an address that is already invited, and ``quota_exceeded`` for too
    many in a day. It does not reveal whether the address has an account.
    """
    address, cleaned = clean_email(email), clean_role(role)
    _check_quota(tenant)
    if Membership.objects.for_tenant(tenant).filter(user__email__iexact=address).exists():
        raise HmiError(ErrorCode.CONFLICT, f"{address} is already a member.", param="email")
    waiting = Invitation.objects.for_tenant(tenant).filter(email=address, state=InvitationState.WAITING)
    for before in waiting:
        if not before.is_expired:
            message = f"{address} is already invited. Resend that invitation, or withdraw it first."
            raise HmiError(ErrorCode.CONFLICT, message, param="email")
        _end(before, InvitationState.REPLACED)
    return _create("invitation.create", tenant, address, cleaned, actor)


@transaction.atomic
def invitation_resend(*, invitation: Invitation, actor: User) -> tuple[Invitation, str]:
    """Replace an invitation by a new one; returns it and the token of its link. The old link stops working.

    Raises ``invitation_over`` if it was accepted or withdrawn, and ``quota_exceeded`` for too many in a day.
    """
    _check_quota(invitation.tenant)
    before = _locked(invitation)
    _check_pending(before)
    _end(before, InvitationState.REPLACED)
    return _create("invitation.resend", before.tenant, before.email, before.role, actor)


@transaction.atomic
def invitation_withdraw(*, invitation: Invitation, actor: User) -> bool:
    """Withdraw an invitation. Returns whether this call did it."""
    found = _locked(invitation)
    if found.state != InvitationState.WAITING:
        return False
    _end(found, InvitationState.WITHDRAWN)
    _record("invitation.withdraw", found, actor)
    return True


@transaction.atomic
def invitation_accept(*, invitation: Invitation, user: User, new_account: bool = False) -> Membership:
    """Make the user a member. A `new_account` was created with the address of the invitation.

    Raises ``invitation_over`` unless the invitation is open, ``forbidden`` if the address is not a verified
    one of the user or the tenant is suspended, and ``conflict`` for a member.
    """
    with tenant_scope(invitation.tenant):
        found = _locked(invitation)
        invitation_check_open(invitation=found)
        require_active(found.tenant)
        if not new_account:
            _check_address(found, user)
        membership = member_add(tenant=found.tenant, user=user, role=found.role, actor=user)
        _end(found, InvitationState.ACCEPTED, accepted_by=user)
        _record("invitation.accept", found, user)
    return membership


def invitation_check_open(*, invitation: Invitation) -> None:
    """Raise ``invitation_over`` with the reason unless the invitation can be accepted."""
    _check_pending(invitation)
    if invitation.is_expired:
        raise HmiError(
            ErrorCode.INVITATION_OVER, f"This invitation expired on {invitation.expires_at:%-d %B %Y}."
        )


def invitations_expire() -> int:
    """Delete invitations that expired before ``INVITATION_RETENTION``; returns how many."""
    limit = timezone.now() - INVITATION_RETENTION
    return Invitation.unscoped.filter(expires_at__lt=limit).delete()[0]


def clean_email(email: str) -> str:
    """The address in lower case, or ``missing_field`` / ``invalid_field``."""
    address = email.strip().lower()
    if not address:
        raise HmiError(ErrorCode.MISSING_FIELD, "An e-mail address is required.", param="email")
    try:
        if len(address) > MAX_EMAIL_LENGTH:
            raise ValidationError("too long")
        validate_email(address)
    except ValidationError as error:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "This is not an e-mail address. Example: user@example.org.",
            param="email",
        ) from error
    return address


def _check_quota(tenant: Tenant) -> None:
    """Raise ``quota_exceeded`` for too many invitations today. Locks the quota until the transaction ends."""
    quota_lock(tenant=tenant)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    quota_check_invitations(tenant=tenant, made_today=invitations_created_since(tenant, midnight))


def _create(verb: str, tenant: Tenant, email: str, role: str, actor: User) -> tuple[Invitation, str]:
    token = secrets.token_urlsafe(32)
    invitation = Invitation(
        tenant=tenant,
        email=email,
        role=role,
        token_hash=token_digest(token),
        invited_by=actor,
        expires_at=timezone.now() + INVITATION_LIFETIME,
    )
    invitation.save(force_insert=True)
    _record(verb, invitation, actor)
    return invitation, token


def _locked(invitation: Invitation) -> Invitation:
    rows = Invitation.objects.for_tenant(invitation.tenant).select_related("tenant")
    row = rows.filter(pk=invitation.pk).select_for_update(of=("self",)).first()
    return require_found(row, "invitation", param="invitation")


def _check_address(invitation: Invitation, user: User) -> None:
    if not has_verified_email(user, invitation.email):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This invitation is for {invitation.email}, which is not a verified address of"
            f" {user.get_username()}.",
            param="email",
        )


def _check_pending(invitation: Invitation) -> None:
    if invitation.state != InvitationState.WAITING:
        reasons = {
            InvitationState.ACCEPTED: "was already accepted",
            InvitationState.WITHDRAWN: "was withdrawn",
            InvitationState.REPLACED: "was sent again. Use the newest link",
        }
        raise HmiError(
            ErrorCode.INVITATION_OVER, f"This invitation {reasons[InvitationState(invitation.state)]}."
        )


def _end(invitation: Invitation, state: InvitationState, *, accepted_by: User | None = None) -> None:
    invitation.state, invitation.ended_at, invitation.accepted_by = state, timezone.now(), accepted_by
    invitation.save(update_fields=["state", "ended_at", "accepted_by"])


def _record(verb: str, invitation: Invitation, actor: User) -> None:
    audit_record(
        verb=verb,
        subject=invitation.email,
        tenant=invitation.tenant,
        actor=actor,
        detail={"role": str(invitation.role)},
    )


def sends_email() -> bool:
    """Whether a mail server is configured. Without one, e-mails are written to the log."""
    return not settings.EMAIL_BACKEND.endswith(".console.EmailBackend")


class EmailStatus(StrEnum):
    """Whether the e-mail of an invitation was sent. ``no_server`` means that none is configured."""

    SENT = "sent"
    FAILED = "failed"
    NO_SERVER = "no_server"


def invitation_send_email(
    *, invitation: Invitation, token: str, build_url: Callable[[str], str]
) -> tuple[str, EmailStatus]:
    """Send the link by e-mail; returns the link and the status. Call it outside of transactions.

    ``build_url`` makes an absolute URL of a path. Without a mail server the link is not logged, because
    anyone who reads it could use it.
    """
    link = build_url(reverse("frontend:invitation_link", args=[token]))
    if not sends_email():
        return link, EmailStatus.NO_SERVER
    context = {"invitation": invitation, "link": link, "site": build_url("/")}
    subject = " ".join(render_to_string("accounts/email/invitation_subject.txt", context).split())
    message = render_to_string("accounts/email/invitation_message.txt", context)
    try:
        send_mail(subject, message, None, [invitation.email])
    except (SMTPException, OSError):
        log.exception("The e-mail of invitation %d could not be sent", invitation.pk)
        return link, EmailStatus.FAILED
    return link, EmailStatus.SENT
