"""The pages behind the link of an invitation."""

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from frontend.invitation_session import clear_invitation, session_invitation, store_invitation
from tenants.accounts.models import Invitation, User
from tenants.accounts.permissions import require_active
from tenants.accounts.selectors import has_verified_email, membership_of
from tenants.accounts.services.invitations import invitation_accept, invitation_check_open
from tenants.base.errors import ErrorCode, HmiError


@require_GET
@never_cache
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    """Store the token in the session and redirect, so that no other URL contains it.

    It changes nothing else, because mail programs open links, too.
    """
    store_invitation(request, token)
    return redirect("frontend:invitation")


@require_http_methods(["GET", "POST"])
@never_cache
def page(request: HttpRequest) -> HttpResponseBase:
    """Show the invitation. POST accepts it for the signed-in user."""
    invitation = session_invitation(request)
    if invitation is None:
        raise HmiError(
            ErrorCode.NOT_FOUND,
            "Invitation not found. Open its link again, and check that the link is complete.",
        )
    if membership_of(request.user, invitation.tenant) is not None:
        clear_invitation(request)
        return redirect("frontend:home", invitation.tenant.slug)
    invitation_check_open(invitation=invitation)
    require_active(invitation.tenant)
    if request.method != "POST":
        return render(request, "frontend/session/invitation.html", _context(request, invitation))
    if not isinstance(request.user, User):
        return redirect_to_login(reverse("frontend:invitation"))
    membership = invitation_accept(invitation=invitation, user=request.user)
    clear_invitation(request)
    messages.success(request, f"You joined {invitation.tenant.name} as {membership.role}.")
    return redirect("frontend:home", invitation.tenant.slug)


def _context(request: HttpRequest, invitation: Invitation) -> dict[str, object]:
    user = request.user
    fits = isinstance(user, User) and has_verified_email(user, invitation.email)
    return {"invitation": invitation, "fits": fits, "page": reverse("frontend:invitation")}
