"""Keys and values of reports and settings as people read them."""

from collections.abc import Mapping
from typing import Any, Final

METRIC_NAMES: Final = {
    "macro_f1": "macro-F1",
    "micro_f1": "micro-F1",
    "f1": "F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "exact": "all labels right",
    "exact_match": "exact match",
    "answered": "questions answered",
    "mean_answer_error": "error of predicting the mean",
}
"""Where the key itself would not do."""


def words(key: str) -> str:
    """A key as people read it."""
    return " ".join(key.replace("_", " ").split())


def metric_words(key: str) -> str:
    """What a figure is called, within a sentence."""
    return METRIC_NAMES.get(key) or words(key)


def plain(value: Any) -> str:
    """The value of a setting."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return (
            ", ".join(f"{words(str(name))} {plain(item)}" for name, item in value.items() if item) or "none"
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
