"""django-allauth's forms in the product's words: labels as elsewhere, and nothing said twice."""

from typing import TYPE_CHECKING, Any

from allauth.account import forms as account
from allauth.core import context
from allauth.mfa.base import forms as second_factor
from allauth.mfa.totp.forms import ActivateTOTPForm
from django import forms
from django.db import transaction
from django.http import HttpRequest

from frontend.invitation_session import clear_invitation, open_invitation
from tenants.accounts.models import User
from tenants.accounts.services.invitations import invitation_accept
from tenants.base.background_tasks import background_tasks

LABELS = {
    "login": "User name or e-mail address",
    "username": "User name",
    "email": "E-mail address",
    "oldpassword": "Current password",
    "password1": "New password",
    "password2": "Repeat the new password",
    "code": "Code",
}

CHOOSING = "At least 8 characters. Common passwords and your own name are not allowed."

if TYPE_CHECKING:
    Form = forms.Form
else:
    Form = object


class Plain(Form):
    """Name it before the form it changes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.label = LABELS.get(name, field.label)
            field.widget.attrs.pop("placeholder", None)
            if name == "password1":
                field.help_text = CHOOSING
        next(iter(self.fields.values())).widget.attrs["autofocus"] = True


class SignInForm(Plain, account.LoginForm):
    """Also with the e-mail address; the page itself leads to a new password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs |= {"autocomplete": "username", "spellcheck": "false"}
        self.fields["password"].help_text = ""


class SignUpForm(Plain, account.SignupForm):
    """A new account. Whoever was invited makes it for the address of the invitation, and is a member then."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].label = "Password"
        self.fields["password2"].label = "Repeat the password"
        self.invitation = open_invitation(context.request)
        if self.invitation is not None:
            self.fields["email"].disabled = True  # whatever is sent, the initial value counts
            self.initial["email"] = self.invitation.email

    def save(self, request: HttpRequest) -> User:
        """The new person."""
        with transaction.atomic():
            user: User = super().save(request)
            if self.invitation is not None:
                invitation_accept(invitation=self.invitation, user=user, new_account=True)
                clear_invitation(request)
        return user


class AddressForm(Plain, account.AddEmailForm):
    """One more e-mail address."""


class PasswordForm(Plain, account.ChangePasswordForm):
    """Another password, by somebody who knows the one before."""


class FirstPasswordForm(Plain, account.SetPasswordForm):
    """A password for an account that has none."""


class ForgottenForm(Plain, account.ResetPasswordForm):
    """Where to send the link. That is done beside the answer, which takes as long where nobody has the
    address."""

    def save(self, request: HttpRequest, **kwargs: Any) -> str:
        background_tasks.run(lambda: super(ForgottenForm, self).save(request, **kwargs))
        return str(self.cleaned_data["email"])


class NewPasswordForm(Plain, account.ResetPasswordKeyForm):
    """Another password, by somebody who followed the link."""


class AgainForm(Plain, account.ReauthenticateForm):
    """The password once more."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].help_text = ""


class CodeForm(Plain, second_factor.AuthenticateForm):
    """The code when signing in."""


class CodeAgainForm(Plain, second_factor.ReauthenticateForm):
    """The code once more."""


class FirstCodeForm(Plain, ActivateTOTPForm):
    """The first code of a new app."""
