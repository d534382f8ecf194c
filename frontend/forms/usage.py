"""Filters of the usage page and of the audit log."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple, cast

from django import forms
from django.http import QueryDict

from tenants.accounts.models import Tenant
from tenants.accounts.selectors import audit_actors
from tenants.audit.selectors import SYSTEM, AuditFilter, audit_kinds
from tenants.base.plurals import plural
from tenants.usage.selectors import UsageFilter

MAX_DAYS: Final = 366
MAX_NAME_LENGTH: Final = 100
MONTH, RANGE = "month", "range"
PERIODS: Final = [
    ("7", "Last 7 days"),
    ("30", "Last 30 days"),
    ("90", "Last 90 days"),
    (MONTH, "This month"),
    (RANGE, "Custom range"),
]
DEFAULT_PERIOD: Final = "30"
WEB_UI_KEY: Final = "browser"
"""The filter value for requests without a key. It is shorter than any prefix of a key."""
WEB_UI: Final = "Web UI"


class Span(NamedTuple):
    """The first and the last day, inclusive."""

    since: date
    until: date


class UsageForm(forms.Form):
    """The period, model and key of the usage page. Dates without a period mean a custom range."""

    period = forms.ChoiceField(label="Period", choices=PERIODS)
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))
    model = forms.CharField(
        label="Model",
        required=False,
        max_length=MAX_NAME_LENGTH,
        widget=forms.TextInput(
            {"list": "model-names", "placeholder": "All", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    key = forms.ChoiceField(label="API key", required=False)

    def __init__(self, query: QueryDict, keys: Mapping[str, str]) -> None:
        """`keys` maps the prefixes of the keys to choose from to their names."""
        data = query.copy()
        if not data.get("period"):
            data["period"] = RANGE if data.get("since") or data.get("until") else DEFAULT_PERIOD
        super().__init__(data)
        cast("forms.ChoiceField", self.fields["key"]).choices = key_choices(keys, data.get("key", ""))

    def clean(self) -> dict[str, Any]:
        """Validate a custom range: order and length."""
        cleaned = super().clean() or {}
        since, until = cleaned.get("since"), cleaned.get("until") or _today()
        if self.errors or cleaned["period"] != RANGE:
            return cleaned
        if since is None:
            self.add_error("since", "Choose the first day.")
        elif until < since:
            self.add_error("until", "The last day is before the first day.")
        elif (until - since).days >= MAX_DAYS:
            self.add_error("since", f"Choose at most {MAX_DAYS} days.")
        return cleaned

    def span(self) -> Span:
        """Return the period; the default one if the form is invalid."""
        today = _today()
        if not self.is_valid():
            return _last(int(DEFAULT_PERIOD), today)
        period = self.cleaned_data["period"]
        if period == RANGE:
            return Span(self.cleaned_data["since"], self.cleaned_data["until"] or today)
        if period == MONTH:
            return Span(today.replace(day=1), today)
        return _last(int(period), today)

    def filter(self) -> UsageFilter:
        """Return the filter; one that matches all if the form is invalid."""
        chosen = self.cleaned_data if self.is_valid() else {}
        key = chosen.get("key") or None
        return UsageFilter(chosen.get("model") or None, "" if key == WEB_UI_KEY else key)


def key_choices(keys: Mapping[str, str], wanted: str) -> list[tuple[str, str]]:
    """Return the choices of an API key by its prefix: all, the web UI, each of `keys` (names by prefix), and
    the prefix that is filtered by, though its key is gone."""
    named = {prefix: f"{name} ({prefix}…)" for prefix, name in keys.items()}
    offered = {"": "All", WEB_UI_KEY: WEB_UI, **named}
    offered.setdefault(wanted, f"{wanted[:8]}…")
    return list(offered.items())


def _last(days: int, today: date) -> Span:
    return Span(today - timedelta(days=days - 1), today)


def _today() -> date:
    return datetime.now(UTC).date()


KIND_LABELS = {"api_key": "API keys"}


class AuditForm(forms.Form):
    """The filters of the audit log."""

    actor = forms.ChoiceField(label="User or key", required=False)
    kind = forms.ChoiceField(label="Event", required=False)
    words = forms.CharField(label="Name", required=False, max_length=100)
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        who = [(name, "The system" if name == SYSTEM else name) for name in audit_actors(tenant)]
        kinds = [
            (kind, KIND_LABELS.get(kind) or plural(kind.replace("_", " ").capitalize()))
            for kind in audit_kinds(tenant)
        ]
        self.fields["actor"] = forms.ChoiceField(
            label="User or key", required=False, choices=[("", "All"), *who]
        )
        self.fields["kind"] = forms.ChoiceField(label="Event", required=False, choices=[("", "All"), *kinds])

    def filters(self) -> AuditFilter:
        """Return the filters; those that match all if the form is invalid."""
        return AuditFilter(**self.cleaned_data) if self.is_valid() else AuditFilter()
