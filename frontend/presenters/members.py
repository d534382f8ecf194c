"""Rows of members and invitations."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tenants.accounts.models import Invitation, Membership, Role, User


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A row of a member. `stays` marks the only owner; `keys` counts the active keys the member created."""

    pk: int
    name: str
    email: str
    role: str
    role_name: str
    since: datetime
    signed_in: datetime | None
    keys: int
    you: bool
    stays: bool


@dataclass(frozen=True, slots=True)
class InvitationRow:
    """A row of an invitation. `state` is waiting or expired."""

    pk: int
    email: str
    role_name: str
    state: str
    by: str
    sent: datetime
    expires: datetime


def member_rows(members: Iterable[Membership], you: User, owners: int) -> list[MemberRow]:
    """Return the rows of members from `members_of`, in the given order."""
    return [_member(member, you, owners) for member in members]


def invitation_rows(invitations: Iterable[Invitation]) -> list[InvitationRow]:
    """Return the rows of invitations, in the given order."""
    return [
        InvitationRow(
            pk=invitation.pk,
            email=invitation.email,
            role_name=Role(invitation.role).label,
            state="expired" if invitation.is_expired else "pending",
            by=invitation.invited_by.get_username() if invitation.invited_by else "",
            sent=invitation.created_at,
            expires=invitation.expires_at,
        )
        for invitation in invitations
    ]


def _member(member: Membership, you: User, owners: int) -> MemberRow:
    person, role = member.user, Role(member.role)
    return MemberRow(
        pk=member.pk,
        name=person.get_full_name() or person.get_username(),
        email=person.email,
        role=role.value,
        role_name=role.label,
        since=member.created_at,
        signed_in=person.last_login,
        keys=getattr(member, "keys", 0),
        you=person.pk == you.pk,
        stays=role is Role.OWNER and owners == 1,
    )
