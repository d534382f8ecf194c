"""The invitation whose link was opened in this browser, kept in the session until it is accepted.

The session stores the hash of the token, so the token appears in no URL except the link itself.
"""

from django.http import HttpRequest

from tenants.accounts.models import Invitation
from tenants.accounts.models.invitation import token_digest
from tenants.accounts.selectors import invitation_by_hash

_SESSION_KEY = "invitation"


def store_invitation(request: HttpRequest, token: str) -> None:
    """Store the invitation with this token, if it exists. Replaces an earlier one."""
    clear_invitation(request)
    token_hash = token_digest(token)
    if invitation_by_hash(token_hash) is not None:
        request.session[_SESSION_KEY] = token_hash


def session_invitation(request: HttpRequest) -> Invitation | None:
    """Return the stored invitation, whatever its state."""
    token_hash = request.session.get(_SESSION_KEY)
    return invitation_by_hash(token_hash) if token_hash else None


def open_invitation(request: HttpRequest) -> Invitation | None:
    """Return the stored invitation if it can still be accepted."""
    invitation = session_invitation(request)
    return invitation if invitation is not None and invitation.is_open else None


def clear_invitation(request: HttpRequest) -> None:
    """Remove the invitation from the session."""
    request.session.pop(_SESSION_KEY, None)
