"""Signing in and out."""

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView


class SignInForm(AuthenticationForm):
    """Django's own form in the product's words."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "User name"
        self.fields["username"].widget = forms.TextInput(
            attrs={"autofocus": True, "autocomplete": "username"}
        )


class SignIn(LoginView):
    """The sign-in page; whoever is signed in already goes on."""

    template_name = "frontend/session/sign_in.html"
    form_class = SignInForm
    redirect_authenticated_user = True
    next_page = "frontend:start"


class SignOut(LogoutView):
    """Signs out (POST only) and returns to the sign-in page."""

    next_page = "frontend:login"
