"""Figures over time as columns of stacked parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

MAX_COLUMNS: Final = 92
GAP: Final = 0.2
"""Of the place that a column has."""


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a column, in a square of 100 whose y goes downwards."""

    series: int
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Column:
    """The parts of one step of time, and what they mean in words."""

    x: str
    width: str
    title: str
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Columns on one scale. `most` is its end in words; `said` is what the picture shows."""

    name: str
    series: list[str]
    columns: list[Column]
    most: str
    first: str
    last: str
    said: str


def daily_columns(
    name: str, series: Sequence[str], by_day: Mapping[date, Sequence[int]], since: date, until: date
) -> ColumnChart:
    """A column for each day from the first to the last, or for each week where days are too many. `by_day`
    has the figures of all series; a day without any may be absent."""
    days = (until - since).days + 1
    step = 1 if days <= MAX_COLUMNS else 7
    starts = [since + timedelta(days=place) for place in range(0, days, step)]
    sums = [_summed(by_day, start, min(start + timedelta(days=step - 1), until), series) for start in starts]
    top = max((sum(figures) for figures in sums), default=0)
    width = 100 / len(starts)
    columns = [
        Column(
            x=f"{(place + GAP / 2) * width:.3f}",
            width=f"{(1 - GAP) * width:.3f}",
            title=_title(start, step, series, figures),
            blocks=_stacked(figures, top or 1),
        )
        for place, (start, figures) in enumerate(zip(starts, sums, strict=True))
    ]
    unit = "day" if step == 1 else "week"
    return ColumnChart(
        name=f"{name} a {unit}",
        series=list(series),
        columns=columns,
        most=f"{top:,}",
        first=_written(since),
        last=_written(until),
        said=f"{name} a {unit} from {_written(since)} to {_written(until)}, at most {top:,}",
    )


def _summed(
    by_day: Mapping[date, Sequence[int]], first: date, last: date, series: Sequence[str]
) -> list[int]:
    days = [by_day.get(first + timedelta(days=n)) for n in range((last - first).days + 1)]
    return [sum(figures[place] for figures in days if figures) for place in range(len(series))]


def _stacked(figures: Sequence[int], top: int) -> list[Block]:
    blocks, below = [], 0.0
    for place, figure in enumerate(figures):
        height = 100 * figure / top
        if figure:
            blocks.append(Block(place, f"{100 - below - height:.3f}", f"{height:.3f}"))
        below += height
    return blocks


def _title(start: date, step: int, series: Sequence[str], figures: Sequence[int]) -> str:
    when = _written(start) if step == 1 else f"The week from {_written(start)}"
    counted = ", ".join(f"{figure:,} {name.lower()}" for name, figure in zip(series, figures, strict=True))
    return f"{when}: {counted}"


def _written(day: date) -> str:
    return f"{day.day} {day:%b %Y}"
