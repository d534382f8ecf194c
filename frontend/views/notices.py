"""Which notices a user gets."""

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from frontend.forms.notices import NoticesForm
from tenants.accounts.models import User
from versiontree.jobs.services.notices import notices_set


@require_http_methods(["GET", "POST"])
@login_required
def page(request: HttpRequest) -> HttpResponse:
    """Show the choice, and store it."""
    user = cast("User", request.user)
    form = NoticesForm(request.POST or None, initial={"notifies_of_jobs": user.notifies_of_jobs})
    if request.method == "POST" and form.is_valid():
        notices_set(user=user, wanted=form.cleaned_data["notifies_of_jobs"])
        messages.success(request, "Notification settings saved.")
        return redirect("frontend:notices")
    return render(request, "frontend/session/notices.html", {"form": form})
