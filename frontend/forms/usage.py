"""Which days a page of usage shows, and whose usage."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple, cast

from django import forms
from django.http import QueryDict

from tenants.accounts.models import Tenant
from tenants.accounts.selectors import audit_actors
from tenants.audit.selectors import SYSTEM, AuditFilter, audit_kinds
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


USUAL: Final = "30"


BROWSER_ASKED: Final = "browser"
"""In place of a key's prefix, which is longer: what was asked without a key."""


BROWSER: Final = "Web UI"


class Span(NamedTuple):
    """The first and the last day, both shown."""

    since: date
    until: date


class UsageForm(forms.Form):
    """A period that ends today, or two days; who gives days and no period means the days. Of one model, one
    key, or all."""

    period = forms.ChoiceField(label="Period", choices=PERIODS)
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))
    model = forms.CharField(
        label="Model",
        required=False,
        max_length=MAX_NAME_LENGTH,
        widget=forms.TextInput(
            {"list": "asked", "placeholder": "All", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    key = forms.ChoiceField(label="API key", required=False)

    def __init__(self, asked: QueryDict, keys: Mapping[str, str]) -> None:
        """`keys` has the names of keys to choose among by their prefixes."""
        data = asked.copy()
        if not data.get("period"):
            data["period"] = RANGE if data.get("since") or data.get("until") else USUAL
        super().__init__(data)
        named = {prefix: f"{name} ({prefix}…)" for prefix, name in keys.items()}
        offered = {"": "All", BROWSER_ASKED: BROWSER, **named}
        wanted = data.get("key", "")
        offered.setdefault(wanted, f"{wanted[:8]}…")
        cast("forms.ChoiceField", self.fields["key"]).choices = list(offered.items())

    def clean(self) -> dict[str, Any]:
        """Two days in their order, not too far from each other."""
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
        """The days; the usual ones where what was chosen does not do."""
        today = _today()
        if not self.is_valid():
            return _last(int(USUAL), today)
        period = self.cleaned_data["period"]
        if period == RANGE:
            return Span(self.cleaned_data["since"], self.cleaned_data["until"] or today)
        if period == MONTH:
            return Span(today.replace(day=1), today)
        return _last(int(period), today)

    def of(self) -> UsageFilter:
        """Whose usage; everybody's where what was chosen does not do."""
        chosen = self.cleaned_data if self.is_valid() else {}
        key = chosen.get("key") or None
        return UsageFilter(chosen.get("model") or None, "" if key == BROWSER_ASKED else key)


def _last(days: int, today: date) -> Span:
    return Span(today - timedelta(days=days - 1), today)


def _today() -> date:
    return datetime.now(UTC).date()


NAMES = {"api_key": "API keys", "model": "Models"}


class AuditForm(forms.Form):
    """By whom, of what kind, about what, when."""

    actor = forms.ChoiceField(label="Who", required=False)
    kind = forms.ChoiceField(label="What", required=False)
    words = forms.CharField(label="Name", required=False, max_length=100)
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, tenant: Tenant, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        who = [(name, "The system" if name == SYSTEM else name) for name in audit_actors(tenant)]
        kinds = [
            (kind, NAMES.get(kind) or f"{kind.replace('_', ' ').capitalize()}s")
            for kind in audit_kinds(tenant)
        ]
        self.fields["actor"] = forms.ChoiceField(
            label="Who", required=False, choices=[("", "Everybody"), *who]
        )
        self.fields["kind"] = forms.ChoiceField(
            label="What", required=False, choices=[("", "Everything"), *kinds]
        )

    def filters(self) -> AuditFilter:
        """What was asked for; everything where that makes no sense."""
        return AuditFilter(**self.cleaned_data) if self.is_valid() else AuditFilter()
