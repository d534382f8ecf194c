"""The form of a new API key."""

from datetime import datetime, timedelta

from django import forms
from django.utils import timezone

from tenants.models import Scope

LIFETIMES = [("0", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year")]


class KeyForm(forms.Form):
    """What a key is called, what it may do, and for how long."""

    name = forms.CharField(
        label="Name", max_length=50, help_text="What it is for, such as the program that uses it."
    )
    scopes = forms.MultipleChoiceField(
        label="It may", choices=Scope.choices, initial=[Scope.INFER], widget=forms.CheckboxSelectMultiple
    )
    days = forms.ChoiceField(label="It ends", choices=LIFETIMES)

    def expires_at(self) -> datetime | None:
        """When the key ends, or None for never."""
        days = int(self.cleaned_data["days"])
        return timezone.now() + timedelta(days=days) if days else None
