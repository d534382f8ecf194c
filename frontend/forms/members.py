"""The forms of the members' page."""

from django import forms

from tenants.accounts.models import Role

WHAT_THEY_DO = (
    "Owners also manage members and API keys; developers make and change things; viewers look and try."
)


class InviteForm(forms.Form):
    """Who is invited, as what."""

    email = forms.CharField(
        label="E-mail address",
        widget=forms.EmailInput({"autocomplete": "off", "spellcheck": "false"}),
        help_text="A link goes there, and is shown to you once. It works for 7 days.",
    )
    role = forms.ChoiceField(
        label="Role", choices=Role.choices, initial=Role.DEVELOPER, help_text=WHAT_THEY_DO
    )


class RoleForm(forms.Form):
    """Another role."""

    role = forms.ChoiceField(choices=Role.choices)
