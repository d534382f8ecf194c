"""Which days a page of usage shows."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

from django import forms

LONGEST_DAYS: Final = 366
MONTH, RANGE = "month", "range"
PERIODS: Final = [
    ("7", "Last 7 days"),
    ("30", "Last 30 days"),
    ("90", "Last 90 days"),
    (MONTH, "This month"),
    (RANGE, "From and to"),
]
USUAL: Final = "30"


class Span(NamedTuple):
    """The first and the last day, both shown."""

    since: date
    until: date


class PeriodForm(forms.Form):
    """A period that ends today, or two days; who gives days and no period means the days."""

    period = forms.ChoiceField(label="Period", choices=PERIODS, required=False, initial=USUAL)
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))

    def clean(self) -> dict[str, Any]:
        """Two days in their order, not too far from each other."""
        cleaned = super().clean() or {}
        since, until = cleaned.get("since"), cleaned.get("until") or _today()
        cleaned["period"] = cleaned.get("period") or (RANGE if since or cleaned.get("until") else USUAL)
        if cleaned["period"] != RANGE or self.errors:
            return cleaned
        if since is None:
            self.add_error("since", "Choose the first day.")
        elif until < since:
            self.add_error("until", "This is before the first day.")
        elif (until - since).days >= LONGEST_DAYS:
            self.add_error("since", f"At most {LONGEST_DAYS} days are shown at once.")
        return cleaned

    def span(self) -> Span:
        """The days; the usual ones where what was chosen does not do."""
        today = _today()
        if not self.is_bound or not self.is_valid():
            return _last(int(USUAL), today)
        period = self.cleaned_data["period"]
        if period == RANGE:
            return Span(self.cleaned_data["since"], self.cleaned_data["until"] or today)
        if period == MONTH:
            return Span(today.replace(day=1), today)
        return _last(int(period), today)


def _last(days: int, today: date) -> Span:
    return Span(today - timedelta(days=days - 1), today)


def _today() -> date:
    return datetime.now(UTC).date()
