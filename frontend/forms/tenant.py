"""The forms of API keys: a new one, and its successor."""

from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from tenants.accounts.models import Role, Scope
from tenants.accounts.services.api_keys import MOST_A_MINUTE
from tenants.webhooks.models import LONGEST_URL, SUBSCRIBABLE
from tenants.webhooks.services.endpoints import LONGEST_DESCRIPTION

ON_A_DAY = "date"


LIFETIMES = [
    ("0", "Never"),
    ("30", "In 30 days"),
    ("90", "In 90 days"),
    ("365", "In a year"),
    (ON_A_DAY, "On the day below"),
]


KEY_OVERLAPS = [
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


class KeyRotateForm(forms.Form):
    """For how long the old key goes on beside its successor."""

    overlap = forms.TypedChoiceField(choices=KEY_OVERLAPS, initial=USUAL_OVERLAP, coerce=int)

    def overlap_time(self) -> timedelta:
        """The same as a time."""
        return timedelta(seconds=self.cleaned_data["overlap"])


def end_of(day: date) -> datetime:
    """The midnight that ends a day, in UTC."""
    return datetime.combine(day + timedelta(days=1), time.min, timezone.get_current_timezone())


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


class SharingForm(forms.Form):
    """Whether misses are counted."""

    shares_fragment_counts = forms.BooleanField(
        label="Count which fragments the tables lack",
        required=False,
        help_text="Tables can then grow by what traffic missed. Of the texts that your models read, the"
        " fragments that a table lacks (runs of two to five tokens, which can be read back as words) are kept"
        " with how often they were missed: at most 20,000 for each table, until the table has grown or you"
        " have missed nothing for 30 days. A domain that all tenants read takes only fragments that several"
        " tenants missed; your own domains take what you missed. Turned off, nothing is counted, and your"
        " counts are deleted within a few minutes.",
    )


SECRET_OVERLAPS = [
    ("0", "stops signing at once"),
    ("3600", "signs as well for another hour"),
    ("86400", "signs as well for another 24 hours"),
    ("604800", "signs as well for another 7 days"),
]


class WebhookForm(forms.Form):
    """Where to send what."""

    url = forms.CharField(
        label="Address",
        max_length=LONGEST_URL,
        widget=forms.URLInput({"placeholder": "https://", "autocomplete": "off"}),
        help_text="Reached from the public internet, by https. Redirects are not followed.",
    )
    kinds = forms.MultipleChoiceField(
        label="Send there when",
        choices=[(kind.value, kind.label) for kind in SUBSCRIBABLE],
        initial=["job.succeeded", "job.failed"],
        widget=forms.CheckboxSelectMultiple,
    )
    description = forms.CharField(label="Description", max_length=LONGEST_DESCRIPTION, required=False)

    def asked(self) -> dict[str, Any]:
        """What the service takes."""
        return {name: self.cleaned_data[name] for name in ("url", "kinds", "description")}


class WebhookRotateForm(forms.Form):
    """For how long the old secret signs beside its successor."""

    overlap = forms.TypedChoiceField(choices=SECRET_OVERLAPS, initial=USUAL_OVERLAP, coerce=int)

    def overlap_time(self) -> timedelta:
        """The same as a time."""
        return timedelta(seconds=self.cleaned_data["overlap"])
