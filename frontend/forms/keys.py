"""The forms of API keys: a new one, and its successor."""

from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from tenants.accounts.models import Scope
from tenants.accounts.services.api_keys import MOST_A_MINUTE

ON_A_DAY = "date"
LIFETIMES = [
    ("0", "Never"),
    ("30", "In 30 days"),
    ("90", "In 90 days"),
    ("365", "In a year"),
    (ON_A_DAY, "On the day below"),
]
OVERLAPS = [
    ("0", "ends at once"),
    ("3600", "works for another hour"),
    ("86400", "works for another 24 hours"),
    ("604800", "works for another 7 days"),
]
USUAL_OVERLAP = "86400"


class KeyForm(forms.Form):
    """What a key is called, what it may do, and for how long."""

    name = forms.CharField(
        label="Name", max_length=50, help_text="What it is for, such as the program that uses it."
    )
    scopes = forms.MultipleChoiceField(
        label="It may", choices=Scope.choices, initial=[Scope.INFER], widget=forms.CheckboxSelectMultiple
    )
    days = forms.ChoiceField(label="It ends", choices=LIFETIMES)
    until = forms.DateField(
        label="Last day",
        required=False,
        widget=forms.DateInput({"type": "date"}),
        help_text="Through the end of that day, in UTC.",
    )
    requests_per_minute = forms.IntegerField(
        label="Requests a minute",
        required=False,
        min_value=1,
        max_value=MOST_A_MINUTE,
        help_text="Empty: as many as the tenant may send.",
    )
    tokens_per_minute = forms.IntegerField(
        label="Tokens a minute", required=False, min_value=1, max_value=MOST_A_MINUTE
    )
    more = ("requests_per_minute", "tokens_per_minute")
    more_label = "Limits of its own"

    def clean(self) -> dict[str, Any]:
        """A day is there exactly where it counts."""
        cleaned = super().clean() or {}
        if cleaned.get("days") == ON_A_DAY and not cleaned.get("until") and "until" not in self.errors:
            self.add_error("until", "Choose the last day.")
        if cleaned.get("days") != ON_A_DAY and cleaned.get("until"):
            self.add_error("until", "This counts only where “On the day below” is chosen.")
        if (until := cleaned.get("until")) and end_of(until) <= timezone.now():
            self.add_error("until", "That day is over.")
        return cleaned

    def expires_at(self) -> datetime | None:
        """When the key ends, or None for never."""
        chosen, day = self.cleaned_data["days"], self.cleaned_data["until"]
        if chosen == ON_A_DAY:
            return end_of(day)
        return timezone.now() + timedelta(days=int(chosen)) if int(chosen) else None


class RotateForm(forms.Form):
    """For how long the old key goes on beside its successor."""

    overlap = forms.TypedChoiceField(choices=OVERLAPS, initial=USUAL_OVERLAP, coerce=int)

    def overlap_time(self) -> timedelta:
        """The same as a time."""
        return timedelta(seconds=self.cleaned_data["overlap"])


def end_of(day: date) -> datetime:
    """The midnight that ends a day, in UTC."""
    return datetime.combine(day + timedelta(days=1), time.min, timezone.get_current_timezone())
