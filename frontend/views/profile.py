"""The page of the person who is signed in."""

from typing import cast

from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from tenants.accounts.models import User
from tenants.accounts.selectors import tenants_of


@require_GET
@login_required
def page(request: HttpRequest) -> HttpResponse:
    """Show name, sign-in, notices and tenants of the person."""
    user = cast("User", request.user)
    context = {
        "has_second_factor": is_mfa_enabled(user),
        "joined": tenants_of(user),
    }
    return render(request, "frontend/session/profile.html", context)
