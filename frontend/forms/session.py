"""The forms of django-allauth with the labels and help texts of this site."""

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

STRENGTH_HELP = "At least 8 characters. Common passwords and your own name are not allowed."

if TYPE_CHECKING:
    Form = forms.Form
else:
    Form = object


class LabelsMixin(Form):
    """Sets labels, help texts and autofocus. List it before the form class that it changes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.label = LABELS.get(name, field.label)
            field.widget.attrs.pop("placeholder", None)
            if name == "password1":
                field.help_text = STRENGTH_HELP
        next(iter(self.fields.values())).widget.attrs["autofocus"] = True


class SignInForm(LabelsMixin, account.LoginForm):
    """Sign in by user name or e-mail address. The page has its own link to reset the password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs |= {"autocomplete": "username", "spellcheck": "false"}
        self.fields["password"].help_text = ""


class SignUpForm(LabelsMixin, account.SignupForm):
    """A new account. If there is an open invitation, its address is used and it is accepted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].label = "Password"
        self.fields["password2"].label = "Repeat the password"
        self.invitation = open_invitation(context.request)
        if self.invitation is not None:
            self.fields["email"].disabled = True  # Django then ignores the submitted value
            self.initial["email"] = self.invitation.email

    def save(self, request: HttpRequest) -> User:
        """Create the user, and accept the open invitation."""
        with transaction.atomic():
            user: User = super().save(request)
            if self.invitation is not None:
                invitation_accept(invitation=self.invitation, user=user, new_account=True)
                clear_invitation(request)
        return user


class AddEmailForm(LabelsMixin, account.AddEmailForm):
    """Add an e-mail address."""


class PasswordChangeForm(LabelsMixin, account.ChangePasswordForm):
    """Change the password. Asks for the current one."""


class PasswordSetForm(LabelsMixin, account.SetPasswordForm):
    """Set the first password of an account."""


class PasswordResetForm(LabelsMixin, account.ResetPasswordForm):
    """Request a link to reset the password.

    The e-mail is sent in the background, so the response time does not show whether the address exists.
    """

    def save(self, request: HttpRequest, **kwargs: Any) -> str:
        background_tasks.run(lambda: super(PasswordResetForm, self).save(request, **kwargs))
        return str(self.cleaned_data["email"])


class PasswordResetKeyForm(LabelsMixin, account.ResetPasswordKeyForm):
    """Set a new password after following the link."""


class ReauthenticateForm(LabelsMixin, account.ReauthenticateForm):
    """Confirm the identity by password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].help_text = ""


class CodeForm(LabelsMixin, second_factor.AuthenticateForm):
    """The code of the second factor when signing in."""


class CodeReauthenticateForm(LabelsMixin, second_factor.ReauthenticateForm):
    """Confirm the identity by a code."""


class TotpActivateForm(LabelsMixin, ActivateTOTPForm):
    """Activate an authenticator app with its first code."""
