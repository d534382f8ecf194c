"""Labels for keys of reports and settings, and formatting of metrics, settings and durations."""

import math
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from tenants.base.plurals import counted, plural
from versiontree.tree.selectors.past_jobs import EstimateRange
from versiontree.tree.training_fields import VALUE_LABELS

MINUTE, HOUR, DAY = 60, 3600, 86_400
_NOT_PERCENT = {"pearson", "spearman", "mean_absolute_error", "mean_answer_error", "loss"}
ACCURACY: Final = "accuracy"
FEW_ROWS: Final = 100
"""Metrics of fewer rows are shown with counts."""
Z_95: Final = 1.96
METRIC_NAMES: Final = {
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "f1": "F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "exact": "all labels right",
    "exact_match": "exact match",
    "answered": "questions answered",
    "rouge_l": "ROUGE-L",
    "bleu": "BLEU",
    "budget_mb": "size of the table (MB)",
    "mean_answer_error": "baseline error (always the mean)",
    "bytes": "size",
    "truncated_share": "truncated rows",
    "majority_baseline": "baseline (always the same answer)",
}
"""Labels that differ from the key."""


def key_label(key: str) -> str:
    """Return the label of a key: with spaces instead of underscores."""
    return " ".join(key.replace("_", " ").split())


def metric_label(key: str) -> str:
    """Return the label of a metric."""
    return METRIC_NAMES.get(key) or key_label(key)


def setting_value(value: Any) -> str:
    """Format the value of a setting; None: training chooses it."""
    if value is None:
        return "automatic"
    if isinstance(value, Mapping):
        items = [f"{key_label(str(name))} {setting_value(item)}" for name, item in value.items() if item]
        return ", ".join(items) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:.4g}" if isinstance(value, float) else VALUE_LABELS.get(value, str(value))


def metric_name(metrics: Mapping[str, Any]) -> str:
    """Return the label of the main metric of an evaluation; empty if there is none."""
    return metric_label(str(metrics.get("metric", "")))


def metric_value(name: str, value: float) -> str:
    """Format a metric: shares in percent, others as numbers."""
    return f"{value:.3f}" if name in _NOT_PERCENT else f"{value:.1%}"


def metric_difference(name: str, difference: float) -> str:
    """Format a difference of metrics: shares in percentage points, others as numbers."""
    return f"{difference:+.3f}" if name in _NOT_PERCENT else f"{100 * difference:+.1f} points"


def percent(share: float | None) -> str:
    """Format a share: 0.8125 -> 81.2%. None is a dash."""
    return "–" if share is None else f"{share:.1%}"


def day_text(day: date) -> str:
    """Format a day: 4 May 2026."""
    return f"{day.day} {day:%b %Y}"


def metric_on_rows(name: str, value: float, rows: Any) -> str:
    """Format a metric of so many rows, of few rows with its interval: "6 of 6, 95% interval 61% to 100%"."""
    return ", ".join(filter(None, (metric_figure(name, value, rows), few_rows_interval(name, value, rows))))


def metric_figure(name: str, value: float, rows: Any) -> str:
    """Format a metric of so many rows. Few rows are named: "6 of 6" where rows are right or wrong, otherwise
    "66.7% on 6 rows"."""
    if not isinstance(rows, int) or not 0 < rows < FEW_ROWS:
        return metric_value(name, value)
    if name != ACCURACY or not 0 <= value <= 1:
        return f"{metric_value(name, value)} on {counted(rows, 'row')}"
    return f"{round(value * rows)} of {rows}"


def metric_interval(name: str, value: float, rows: Any) -> str:
    """Format Wilson's 95 % interval of an accuracy; empty for other metrics."""
    if name != ACCURACY or not isinstance(rows, int) or rows <= 0 or not 0 <= value <= 1:
        return ""
    low, high = wilson_interval(round(value * rows), rows)
    digits = 0 if rows < FEW_ROWS else 1
    return f"95% interval {low:.{digits}%} to {high:.{digits}%}"


def few_rows_interval(name: str, value: float, rows: Any) -> str:
    """Format the interval of an accuracy of few rows, which a table shows below it; empty for others."""
    return metric_interval(name, value, rows) if isinstance(rows, int) and rows < FEW_ROWS else ""


def wilson_interval(right: int, rows: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    share, spread = right / rows, Z_95**2 / rows
    centre = share + spread / 2
    half = Z_95 * math.sqrt(share * (1 - share) / rows + spread / (4 * rows))
    low, high = ((centre + sign * half) / (1 + spread) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)


def time_range(span: EstimateRange) -> str:
    """Format a range of seconds: "about 3 to 6 minutes", "about 40 seconds"."""
    low, high = _rounded(span.low), _rounded(span.high)
    if low == high:
        return f"about {time_amount(high)}"
    unit = _unit(high)
    first = f"{low / unit:.3g}" if _unit(low) == unit else time_amount(low)
    return f"about {first} to {time_amount(high)}"


def _unit(seconds: float) -> int:
    return next((unit for unit in (DAY, HOUR, MINUTE) if seconds >= 2 * unit), 1)


def _rounded(seconds: float) -> float:
    """Round to the precision of an estimate."""
    unit = _unit(seconds)
    amount = seconds / unit
    return max(1.0, round(amount) if amount < 10 else round(amount / 5) * 5) * unit


def time_amount(seconds: float) -> str:
    """Format seconds with one unit: "40 seconds", "3 minutes"."""
    seconds = _rounded(seconds)
    unit = _unit(seconds)
    word = {1: "second", MINUTE: "minute", HOUR: "hour", DAY: "day"}[unit]
    amount = seconds / unit
    return f"{amount:.3g} {word if amount == 1 else plural(word)}"
