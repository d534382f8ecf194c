"""Filters of the request log."""

from collections.abc import Mapping
from typing import Any, Final, cast

from django import forms
from django.http import QueryDict

from frontend.forms.usage import MAX_NAME_LENGTH, WEB_UI_KEY, key_choices
from tenants.usage.models import RequestStatus
from tenants.usage.request_selectors import ALL_REQUESTS, RequestFilter

MINUTES: Final = "%Y-%m-%dT%H:%M"
"""How browsers write a time."""
STATUSES: Final = [("", "All"), *((each, each.value.capitalize()) for each in RequestStatus)]


def _time(label: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput({"type": "datetime-local"}, format=MINUTES)
    return forms.DateTimeField(label=label, required=False, widget=widget)


def _text(label: str, *, max_length: int, **attributes: str) -> forms.CharField:
    plain = {"placeholder": "All", "autocomplete": "off", "spellcheck": "false"}
    return forms.CharField(
        label=label, required=False, max_length=max_length, widget=forms.TextInput(plain | attributes)
    )


class RequestsForm(forms.Form):
    """Model, status, error code, key, time and id. All are optional."""

    request_id = _text("Request ID", max_length=80, type="search")
    model = _text("Model", max_length=MAX_NAME_LENGTH)
    status = forms.ChoiceField(label="Status", required=False, choices=STATUSES)
    code = _text("Error code", max_length=40, list="error-codes")
    key = forms.ChoiceField(label="API key", required=False)
    since = _time("From")
    until = _time("To")

    def __init__(self, query: QueryDict, keys: Mapping[str, str]) -> None:
        """`keys` maps the prefixes of the keys to choose from to their names."""
        super().__init__(query)
        cast("forms.ChoiceField", self.fields["key"]).choices = key_choices(keys, query.get("key", ""))

    def clean(self) -> dict[str, Any]:
        """Validate the order of the times."""
        cleaned = super().clean() or {}
        since, until = cleaned.get("since"), cleaned.get("until")
        if since is not None and until is not None and until <= since:
            self.add_error("until", "Choose a time after the first one.")
        return cleaned

    def filters(self) -> RequestFilter:
        """Return the filters; those that match all if the form is invalid."""
        if not self.is_valid():
            return ALL_REQUESTS
        chosen = {name: value for name, value in self.cleaned_data.items() if value}
        if "status" in chosen:
            chosen["status"] = RequestStatus(chosen["status"])
        if chosen.get("key") == WEB_UI_KEY:
            chosen["key"] = ""
        return RequestFilter(**chosen)
