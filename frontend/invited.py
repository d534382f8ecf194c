"""The invitation whose link was opened in a browser, until it is accepted.

The session keeps the hash of the token, so that the token stands in no address but the link's own.
"""

from django.http import HttpRequest

from tenants.accounts.models import Invitation
from tenants.accounts.models.invitation import hash_of
from tenants.accounts.selectors import invitation_by_hash

_KEY = "invitation"


def remember(request: HttpRequest, token: str) -> None:
    """Keep the invitation of this token, if there is one, in the place of any before."""
    forget(request)
    token_hash = hash_of(token)
    if invitation_by_hash(token_hash) is not None:
        request.session[_KEY] = token_hash


def invited(request: HttpRequest) -> Invitation | None:
    """The invitation, whatever became of it meanwhile."""
    token_hash = request.session.get(_KEY)
    return invitation_by_hash(token_hash) if token_hash else None


def openly_invited(request: HttpRequest) -> Invitation | None:
    """The invitation, if it can still be accepted."""
    invitation = invited(request)
    return invitation if invitation is not None and invitation.is_open else None


def forget(request: HttpRequest) -> None:
    """It was accepted."""
    request.session.pop(_KEY, None)
