"""Forms for API keys, members, settings and webhooks."""

from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from tenants.accounts.models import Role, Scope
from tenants.accounts.services.api_keys import MAX_PER_MINUTE
from tenants.webhooks.models import MAX_URL_LENGTH, SUBSCRIBABLE, EventKind
from tenants.webhooks.services.endpoints import MAX_DESCRIPTION_LENGTH

ON_A_DATE = "date"
LIFETIMES = [
    ("0", "Never"),
    ("30", "In 30 days"),
    ("90", "In 90 days"),
    ("365", "In a year"),
    (ON_A_DATE, "On a date"),
]
OVERLAPS = [
    ("0", "is revoked now"),
    ("3600", "stays valid for 1 hour"),
    ("86400", "stays valid for 24 hours"),
    ("604800", "stays valid for 7 days"),
]
DEFAULT_OVERLAP = "86400"


class KeyForm(forms.Form):
    """A new API key: name, scopes, expiry and rate limits."""

    name = forms.CharField(
        label="Name", max_length=50, help_text="For example the program that uses the key."
    )
    scopes = forms.MultipleChoiceField(
        label="Scopes", choices=Scope.choices, initial=[Scope.INFER], widget=forms.CheckboxSelectMultiple
    )
    days = forms.ChoiceField(label="Expires", choices=LIFETIMES)
    until = forms.DateField(
        label="Last day",
        required=False,
        widget=forms.DateInput({"type": "date"}),
        help_text="The key works until the end of this day, UTC.",
    )
    requests_per_minute = forms.IntegerField(
        label="Requests per minute",
        required=False,
        min_value=1,
        max_value=MAX_PER_MINUTE,
        help_text="Leave empty for the tenant's limit.",
    )
    tokens_per_minute = forms.IntegerField(
        label="Tokens per minute", required=False, min_value=1, max_value=MAX_PER_MINUTE
    )
    more = ("requests_per_minute", "tokens_per_minute")
    more_label = "Rate limits"

    def clean(self) -> dict[str, Any]:
        """Validate that a date is given if, and only if, the key expires on a date."""
        cleaned = super().clean() or {}
        if cleaned.get("days") == ON_A_DATE and not cleaned.get("until") and "until" not in self.errors:
            self.add_error("until", "Choose a date.")
        if cleaned.get("days") != ON_A_DATE and cleaned.get("until"):
            self.add_error("until", "To set a date, choose “On a date” above.")
        if (until := cleaned.get("until")) and end_of(until) <= timezone.now():
            self.add_error("until", "Choose a day in the future.")
        return cleaned

    def expires_at(self) -> datetime | None:
        """Return the expiry time, or None for never."""
        chosen, day = self.cleaned_data["days"], self.cleaned_data["until"]
        if chosen == ON_A_DATE:
            return end_of(day)
        return timezone.now() + timedelta(days=int(chosen)) if int(chosen) else None


class RotateForm(forms.Form):
    """How long the old key or secret stays valid."""

    overlap = forms.TypedChoiceField(choices=OVERLAPS, initial=DEFAULT_OVERLAP, coerce=int)

    def overlap_time(self) -> timedelta:
        """Return the overlap."""
        return timedelta(seconds=self.cleaned_data["overlap"])


def end_of(day: date) -> datetime:
    """Return the end of a day in UTC."""
    return datetime.combine(day + timedelta(days=1), time.min, timezone.get_current_timezone())


ROLE_HELP = (
    "Viewers see everything and can try models. Developers also create and change things."
    " Owners also manage members and API keys."
)


class InviteForm(forms.Form):
    """A new invitation."""

    email = forms.CharField(
        label="E-mail address",
        widget=forms.EmailInput({"autocomplete": "off", "spellcheck": "false"}),
        help_text="We send a link to this address and show it to you once. It is valid for 7 days.",
    )
    role = forms.ChoiceField(label="Role", choices=Role.choices, initial=Role.DEVELOPER, help_text=ROLE_HELP)


class RoleForm(forms.Form):
    """The new role of a member."""

    role = forms.ChoiceField(choices=Role.choices)


class SettingsForm(forms.Form):
    """The switches of a tenant: what HMI counts and keeps of its requests beside usage, and whether models
    follow their domains."""

    checks_answers = forms.BooleanField(
        label="Quality checks in the background",
        required=False,
        help_text="Recomputes a small share of the fast answers with the full model when no other request"
        " waits. The page of a version shows how many answers agree. Texts are not stored, and checks are not"
        " charged.",
    )
    keeps_request_texts = forms.BooleanField(
        label="Keep request texts",
        required=False,
        help_text="The request log then stores the first 500 characters of each input. All members and keys"
        " with the scope “manage” can read them until the entry is deleted. If you turn this off, the texts"
        " are deleted. Without it the log has no texts.",
    )
    auto_rebase = forms.BooleanField(
        label="Rebase models automatically",
        required=False,
        help_text="When a domain or root has a new version, each of your models on it gets a version on"
        " it, within your limits. The new version becomes @default only if it is not worse.",
    )


EVENT_LABELS = {EventKind.VERSION_DRIFTED: "A model's confidence drifts"}


class WebhookForm(forms.Form):
    """A webhook: URL, events and description."""

    url = forms.CharField(
        label="URL",
        max_length=MAX_URL_LENGTH,
        widget=forms.URLInput({"placeholder": "https://", "autocomplete": "off"}),
        help_text="A public https URL. Redirects are not followed.",
    )
    kinds = forms.MultipleChoiceField(
        label="Events",
        choices=[(kind.value, EVENT_LABELS.get(kind, kind.label)) for kind in SUBSCRIBABLE],
        initial=["job.succeeded", "job.failed"],
        widget=forms.CheckboxSelectMultiple,
    )
    description = forms.CharField(label="Description", max_length=MAX_DESCRIPTION_LENGTH, required=False)

    def values(self) -> dict[str, Any]:
        """Return the values as the services take them."""
        return {name: self.cleaned_data[name] for name in ("url", "kinds", "description")}
