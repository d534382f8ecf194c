"""The metrics of conversion and further pretraining: errors by level, perplexities, lookup tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frontend.presenters.metrics import LEVEL_NAMES, level_order

STAGES = (
    ("unconverted", "Before"),
    ("closed_form", "Closed form"),
    ("distilled", "Distilled"),
    ("before", "Before"),
    ("after", "After"),
)
TEXTS = (("domain", "The domain's text"), ("general", "General text"), ("", "Held-out text"))


@dataclass(frozen=True, slots=True)
class LevelRow:
    """The unexplained variance at a lookup level: at the cut, and after the last layer."""

    level: str
    cut: float | None
    last: float | None


@dataclass(frozen=True, slots=True)
class StageTable:
    """The errors by level after a stage."""

    name: str
    rows: list[LevelRow]


@dataclass(frozen=True, slots=True)
class PerplexityRow:
    """The perplexity on a kind of text, before and after; lower is better.

    full_context: after, of the lower layers with full context. None for older domains, which have none.
    """

    text: str
    before: float
    after: float
    full_context: float | None

    @property
    def change(self) -> float:
        """Return the relative change; negative is better."""
        return self.after / self.before - 1 if self.before else 0.0


@dataclass(frozen=True, slots=True)
class TableRow:
    """A lookup table of a version. `covers` is its coverage by kind of fragment, longest first."""

    name: str
    number: int
    rows: int | None
    bytes: int
    covers: list[tuple[str, float]]
    vectors: str
    levels: str
    of_domain: bool


def stage_tables(report: Mapping[str, Any]) -> list[StageTable]:
    """Return the held-out errors of a conversion or further pretraining by stage."""
    tables = []
    for key, name in STAGES:
        found = report.get(key)
        levels = found.get("unexplained", found) if isinstance(found, Mapping) else {}
        known = sorted((level for level in levels if level in LEVEL_NAMES), key=level_order)
        rows = [_level_row(level, levels[level]) for level in known]
        if rows:
            tables.append(StageTable(name, rows))
    return tables


def perplexity_rows(report: Mapping[str, Any]) -> list[PerplexityRow]:
    """Return the perplexities before and after further pretraining by kind of text."""
    before, after, full = (_perplexities(report.get(key)) for key in ("before", "after", "full_context"))
    return [
        PerplexityRow(name, before[text], after[text], full.get(text))
        for text, name in TEXTS
        if text in before and text in after
    ]


def _level_row(level: str, figures: Any) -> LevelRow:
    found = figures if isinstance(figures, Mapping) else {"cut": figures}
    return LevelRow(LEVEL_NAMES[level], found.get("cut"), found.get("last"))


def _perplexities(found: Any) -> dict[str, float]:
    """Return the perplexities by kind of text. A report may have only one, without kind."""
    perplexity = found.get("perplexity") if isinstance(found, Mapping) else None
    if isinstance(perplexity, Mapping):
        return {text: float(value) for text, value in perplexity.items() if isinstance(value, int | float)}
    return {"": float(perplexity)} if isinstance(perplexity, int | float) else {}
