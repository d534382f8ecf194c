"""The forms of a tenant, and the one that adds it with its owner."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminEmailInputWidget

from tenants.accounts.models import Membership, Tenant, User
from tenants.accounts.models.tenant import MAX_WEIGHT, MIN_WEIGHT
from tenants.base.admin.base import ModelForm
from tenants.base.admin.search_select import SearchSelect


class TenantForm(ModelForm):
    """The settings of a tenant that administrators change."""

    class Meta:
        model = Tenant
        fields = ("slug", "name", "weight", "checks_answers")
        labels = {"weight": "Priority", "checks_answers": "Background quality checks"}
        help_texts = {
            "slug": "Part of all addresses and model names. Lower-case letters, digits and hyphens.",
            "weight": f"2 gets twice the capacity of 1 under load. From {MIN_WEIGHT:g} to {MAX_WEIGHT:g}.",
            "checks_answers": "When no request waits, a sample of fast answers is computed by the full model"
            " too, and differences are counted. No texts are kept, and nothing is charged.",
        }


class TenantAddForm(TenantForm):
    """A new tenant. Its owner is a user, or somebody who is invited by e-mail."""

    owner = forms.ModelChoiceField(
        queryset=User.objects.filter(is_active=True),
        required=False,
        widget=SearchSelect(Membership._meta.get_field("user")),
        label="Or choose owner",
        help_text="For an owner who has an account.",
    )
    owner_email = forms.EmailField(
        required=False,
        widget=UnfoldAdminEmailInputWidget,
        label="Invite owner by e-mail",
        help_text="For an owner without an account. If no e-mail can be sent, the next page shows the link.",
    )

    def clean(self) -> Any:
        cleaned = super().clean()
        if {"owner", "owner_email"} & self.errors.keys():
            return cleaned
        if self.cleaned_data["owner"] and self.cleaned_data["owner_email"]:
            self.add_error("owner_email", "Choose a user or enter an e-mail address, not both.")
        elif not self.cleaned_data["owner"] and not self.cleaned_data["owner_email"]:
            self.add_error("owner", "Choose a user, or enter an e-mail address.")
        return cleaned
