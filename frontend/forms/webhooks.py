"""The forms of webhooks: a new one, the same changed, and the next secret."""

from datetime import timedelta
from typing import Any

from django import forms

from frontend.forms.keys import USUAL_OVERLAP
from tenants.webhooks.models import LONGEST_URL, SUBSCRIBABLE
from tenants.webhooks.services.endpoints import LONGEST_DESCRIPTION

OVERLAPS = [
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


class RotateForm(forms.Form):
    """For how long the old secret signs beside its successor."""

    overlap = forms.TypedChoiceField(choices=OVERLAPS, initial=USUAL_OVERLAP, coerce=int)

    def overlap_time(self) -> timedelta:
        """The same as a time."""
        return timedelta(seconds=self.cleaned_data["overlap"])
