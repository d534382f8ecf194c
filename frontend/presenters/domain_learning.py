"""What a root or domain learned, as pages show it: errors by level, perplexities, tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frontend.presenters.metrics import LEVEL_NAMES, by_level_order

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
    """The variance left unexplained when fragments are read at one level: at the cut and after all layers."""

    level: str
    cut: float | None
    last: float | None


@dataclass(frozen=True, slots=True)
class StageTable:
    """The errors of all levels after one stage."""

    name: str
    rows: list[LevelRow]


@dataclass(frozen=True, slots=True)
class PerplexityRow:
    """How surprised the language model is by a kind of text, before and after; lower is better."""

    text: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """The share by which it rose; negative is better."""
        return self.after / self.before - 1 if self.before else 0.0


@dataclass(frozen=True, slots=True)
class TableRow:
    """One PLOT in the chain that a version looks fragments up in, nearest first.

    covers: which share of the corpus's occurrences it holds, by the name of the fragments, the longest first.
    """

    name: str
    number: int
    rows: int | None
    bytes: int
    covers: list[tuple[str, float]]
    vectors: str
    levels: str
    of_domain: bool


def stage_tables(report: Mapping[str, Any]) -> list[StageTable]:
    """The held-out errors of a conversion or further pretraining, stage by stage."""
    tables = []
    for key, name in STAGES:
        found = report.get(key)
        levels = found.get("unexplained", found) if isinstance(found, Mapping) else {}
        known = sorted((level for level in levels if level in LEVEL_NAMES), key=by_level_order)
        rows = [_level_row(level, levels[level]) for level in known]
        if rows:
            tables.append(StageTable(name, rows))
    return tables


def perplexity_rows(report: Mapping[str, Any]) -> list[PerplexityRow]:
    """Perplexities before and after further pretraining, on the domain's and on general text."""
    before, after = _perplexities(report.get("before")), _perplexities(report.get("after"))
    return [
        PerplexityRow(name, before[text], after[text])
        for text, name in TEXTS
        if text in before and text in after
    ]


def _level_row(level: str, figures: Any) -> LevelRow:
    found = figures if isinstance(figures, Mapping) else {"cut": figures}
    return LevelRow(LEVEL_NAMES[level], found.get("cut"), found.get("last"))


def _perplexities(found: Any) -> dict[str, float]:
    """Kind of text -> perplexity, whether the report has one figure or one by kind of text."""
    perplexity = found.get("perplexity") if isinstance(found, Mapping) else None
    if isinstance(perplexity, Mapping):
        return {text: float(value) for text, value in perplexity.items() if isinstance(value, int | float)}
    return {"": float(perplexity)} if isinstance(perplexity, int | float) else {}
