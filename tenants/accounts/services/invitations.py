"""The life of an invitation: a link that is made, perhaps sent again or withdrawn, and accepted once."""

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
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import tenant_scope
from tenants.usage.services.quotas import quota_check_invitations, quota_lock

INVITATION_LIFETIME = timedelta(days=7)


KEPT = timedelta(days=30)


@transaction.atomic
def invitation_create(*, tenant: Tenant, email: str, role: str, actor: User) -> tuple[Invitation, str]:
    """An invitation and the token of its link, which is returned this once and never stored.

    A member or an invitation that waits already: ``conflict``; too many in a day: ``quota_exceeded``. It is
    not looked at, nor told, whether the address has an account.
    """
    address, cleaned = clean_email(email), clean_role(role)
    _check_allowance(tenant)
    if Membership.objects.for_tenant(tenant).filter(user__email__iexact=address).exists():
        raise HmiError(ErrorCode.CONFLICT, f"{address} is a member already.", param="email")
    waiting = Invitation.objects.for_tenant(tenant).filter(email=address, state=InvitationState.WAITING)
    for before in waiting:
        if not before.is_expired:
            message = f"{address} is invited already. Send that invitation again, or withdraw it first."
            raise HmiError(ErrorCode.CONFLICT, message, param="email")
        _end(before, InvitationState.REPLACED)
    return _make("invitation.create", tenant, address, cleaned, actor)


@transaction.atomic
def invitation_resend(*, invitation: Invitation, actor: User) -> tuple[Invitation, str]:
    """A new invitation with a new token in the place of this one, whose link ends. One that was accepted or
    withdrawn: ``invitation_over``; too many in a day: ``quota_exceeded``."""
    _check_allowance(invitation.tenant)
    before = _locked(invitation)
    _check_pending(before)
    _end(before, InvitationState.REPLACED)
    return _make("invitation.resend", before.tenant, before.email, before.role, actor)


@transaction.atomic
def invitation_withdraw(*, invitation: Invitation, actor: User) -> bool:
    """End the link; true when this call did it."""
    found = _locked(invitation)
    if found.state != InvitationState.WAITING:
        return False
    _end(found, InvitationState.WITHDRAWN)
    _record("invitation.withdraw", found, actor)
    return True


@transaction.atomic
def invitation_accept(*, invitation: Invitation, user: User, new_account: bool = False) -> Membership:
    """Make the user, who must have confirmed the address, a member; a `new_account` has just been made for
    the invitation, with its address and no other.

    Used, withdrawn or run out: ``invitation_over``; of another address, or of a tenant that is suspended:
    ``forbidden``; a member already: ``conflict``.
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
    """The link still works; else ``invitation_over``, which says why not."""
    _check_pending(invitation)
    if invitation.is_expired:
        raise HmiError(
            ErrorCode.INVITATION_OVER, f"This invitation ran out on {invitation.expires_at:%-d %B %Y}."
        )


def invitations_expire() -> int:
    """Delete what ended, or ran out, a month ago; how many."""
    long_ago = timezone.now() - KEPT
    return Invitation.unscoped.filter(expires_at__lt=long_ago).delete()[0]


def clean_email(email: str) -> str:
    """An address in lower-case letters, or ``missing_field`` / ``invalid_field``."""
    address = email.strip().lower()
    if not address:
        raise HmiError(ErrorCode.MISSING_FIELD, "An e-mail address is needed.", param="email")
    try:
        if len(address) > MAX_EMAIL_LENGTH:
            raise ValidationError("too long")
        validate_email(address)
    except ValidationError as error:
        raise HmiError(
            ErrorCode.INVALID_FIELD, "This is no e-mail address: somebody@example.org is one.", param="email"
        ) from error
    return address


def _check_allowance(tenant: Tenant) -> None:
    """Also lets one who invites wait for another of the same tenant."""
    quota_lock(tenant=tenant)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    quota_check_invitations(tenant=tenant, made_today=invitations_created_since(tenant, midnight))


def _make(verb: str, tenant: Tenant, email: str, role: str, actor: User) -> tuple[Invitation, str]:
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
    found = rows.filter(pk=invitation.pk).select_for_update(of=("self",)).first()
    if found is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such invitation.", param="invitation")
    return found


def _check_address(invitation: Invitation, user: User) -> None:
    if not has_verified_email(user, invitation.email):
        raise HmiError(
            ErrorCode.FORBIDDEN,
            f"This invitation is for {invitation.email}, which is no confirmed address of"
            f" {user.get_username()}.",
            param="email",
        )


def _check_pending(invitation: Invitation) -> None:
    if invitation.state != InvitationState.WAITING:
        said = {
            InvitationState.ACCEPTED: "was accepted already",
            InvitationState.WITHDRAWN: "was withdrawn",
            InvitationState.REPLACED: "was sent again: the newest link is the one that works",
        }
        raise HmiError(
            ErrorCode.INVITATION_OVER, f"This invitation {said[InvitationState(invitation.state)]}."
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


log = logging.getLogger(__name__)


class Delivery(StrEnum):
    """What became of the message."""

    SENT = "sent"
    FAILED = "failed"
    NO_SERVER = "no_server"


def invitation_deliver(
    *, invitation: Invitation, token: str, site: Callable[[str], str]
) -> tuple[str, Delivery]:
    """The link, and whether a mail server took it; ``site`` makes a path an address. Call it outside of
    transactions. Without a mail server nothing is written to the log, as a link lets in whoever has it.
    """
    link = site(reverse("frontend:invitation_link", args=[token]))
    if settings.EMAIL_BACKEND.endswith(".console.EmailBackend"):
        return link, Delivery.NO_SERVER
    told = {"invitation": invitation, "link": link, "site": site("/")}
    subject = " ".join(render_to_string("accounts/email/invitation_subject.txt", told).split())
    message = render_to_string("accounts/email/invitation_message.txt", told)
    try:
        send_mail(subject, message, None, [invitation.email])
    except (SMTPException, OSError):
        log.exception("The mail of invitation %d could not be sent", invitation.pk)
        return link, Delivery.FAILED
    return link, Delivery.SENT
