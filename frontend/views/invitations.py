"""What somebody sees who opens the link of an invitation."""

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from frontend.invited import forget, invited, remember
from tenants.accounts.models import Invitation, User
from tenants.accounts.permissions import require_active
from tenants.accounts.selectors import has_address, membership_of
from tenants.accounts.services.invitations import invitation_accept, invitation_check_open
from tenants.base.errors import ErrorCode, HmiError


@require_GET
@never_cache
def link(request: HttpRequest, token: str) -> HttpResponse:
    """The link of a message: leads on to where the token is in no address. It changes nothing, as programs
    open links, too."""
    remember(request, token)
    return redirect("frontend:invitation")


@require_http_methods(["GET", "POST"])
@never_cache
def page(request: HttpRequest) -> HttpResponseBase:
    """Who invites to what; a button accepts for whoever is signed in and has the address."""
    invitation = invited(request)
    if invitation is None:
        raise HmiError(
            ErrorCode.NOT_FOUND,
            "There is no such invitation. Open its link again, and mind that it is whole.",
        )
    if membership_of(request.user, invitation.tenant) is not None:
        forget(request)
        return redirect("frontend:home", invitation.tenant.slug)
    invitation_check_open(invitation=invitation)
    require_active(invitation.tenant)
    if request.method != "POST":
        return render(request, "frontend/session/invitation.html", _context(request, invitation))
    if not isinstance(request.user, User):
        return redirect_to_login(reverse("frontend:invitation"))
    membership = invitation_accept(invitation=invitation, user=request.user)
    forget(request)
    messages.success(request, f"You are {membership.role} of {invitation.tenant.name} now.")
    return redirect("frontend:home", invitation.tenant.slug)


def _context(request: HttpRequest, invitation: Invitation) -> dict[str, object]:
    user = request.user
    fits = isinstance(user, User) and has_address(user, invitation.email)
    return {"invitation": invitation, "fits": fits, "page": reverse("frontend:invitation")}
