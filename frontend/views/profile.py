"""The pages of the person who is signed in: profile and notices."""

from typing import cast

from allauth.mfa.utils import is_mfa_enabled
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from tenants.accounts.models import User
from tenants.accounts.selectors import tenants_of
from versiontree.jobs.services.notices import notices_set


class NoticesForm(forms.Form):
    """Whether the user is told of jobs that ended."""

    notifies_of_jobs = forms.BooleanField(
        label="Notify me when my jobs end",
        required=False,
        help_text="Marks Jobs in the navigation, and sends an e-mail to your confirmed address if"
        " this installation can send e-mail.",
    )


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


@require_http_methods(["GET", "POST"])
@login_required
def notices(request: HttpRequest) -> HttpResponse:
    """Show the choice, and store it."""
    user = cast("User", request.user)
    form = NoticesForm(request.POST or None, initial={"notifies_of_jobs": user.notifies_of_jobs})
    if request.method == "POST" and form.is_valid():
        notices_set(user=user, wanted=form.cleaned_data["notifies_of_jobs"])
        messages.success(request, "Notification settings saved.")
        return redirect("frontend:notices")
    return render(request, "frontend/session/notices.html", {"form": form})
