"""The data of tiles, bars and charts, as the shared partials draw them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import accumulate
from typing import Final, Protocol

from frontend.presenters.formatting import day_text
from tenants.base.plurals import counted

FRAGMENTS: Final = {"trigram": "Known phrase", "bigram": "Partly known", "unigram": "Word by word"}
"""Labels of what the lookup tables had of a fragment by their names in the API, longest first."""
LEVELS: Final = {**FRAGMENTS, "computed": "Computed"}
"""The same with the label of tokens whose text was computed in full."""

NUMBER_FORMAT: Final = ".4g"
MAX_COLUMNS: Final = 92
COLUMN_GAP: Final = 0.2
"""The share of a column's place that stays empty."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of a page, with a note below it. Notes of `links` have a URL, or "" for none."""

    name: str
    figure: str
    note: str = ""
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a bar list. `share` is the width in 0..1, or None for no bar.

    `quiet` bars are grey; `near` bars are red, because a limit is almost reached.
    """

    name: str
    share: float | None
    figure: str
    quiet: bool = False
    near: bool = False


@dataclass(frozen=True, slots=True)
class ChartPart:
    """A part of a stacked bar: `start` and `share` are in 0..1. `hue` is its fixed colour, if any."""

    name: str
    share: float
    start: float
    figure: str
    hue: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """A line: SVG points in a square of 100, and the formatted first and last value.

    `hue` names its colour, if it has a fixed one.
    """

    name: str
    points: str
    first: str
    last: str
    hue: str = ""


def _curve(
    name: str, values: Sequence[float], least: float, most: float, number_format: str = NUMBER_FORMAT
) -> Curve:
    span, step = (most - least) or 1.0, 100 / (len(values) - 1)
    places = (
        f"{place * step:.2f},{96 - (value - least) / span * 92:.2f}" for place, value in enumerate(values)
    )
    first, last = (format(value, number_format) for value in (values[0], values[-1]))
    return Curve(name, " ".join(places), first, last)


@dataclass(frozen=True, slots=True)
class Spot:
    """A strip of a chart with a tooltip; `x` and `width` are in 0..100."""

    x: str
    width: str
    title: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines on one scale from `least` to `most`. `began` and `now` label the first and last position."""

    name: str
    lines: list[Curve]
    least: str
    most: str
    began: str = ""
    now: str = ""
    spots: Sequence[Spot] = ()


def line_chart(
    name: str,
    series: Mapping[str, Sequence[float]],
    hues: Mapping[str, str] | None = None,
    at: Sequence[str] = (),
    number_format: str = NUMBER_FORMAT,
) -> LineChart:
    """Return the chart of several series, each of at least two values at equal steps.

    `hues` maps names to colours; `at` labels the position of each value; `number_format` is Python's, for all
    values.
    """
    every = [value for values in series.values() for value in values]
    least, most = min(every), max(every)
    drawn = [_curve(line, values, least, most, number_format) for line, values in series.items()]
    lines = [replace(curve, hue=(hues or {}).get(curve.name, "")) for curve in drawn]
    ends = (at[0], at[-1]) if at else ("", "")
    low, high = (format(value, number_format) for value in (least, most))
    return LineChart(name, lines, low, high, *ends, _spots(series, at, number_format))


def _spots(series: Mapping[str, Sequence[float]], at: Sequence[str], number_format: str) -> list[Spot]:
    """Return a tooltip strip per position, as wide as a step."""
    step = 100 / max(len(at) - 1, 1)
    full = [(name, values) for name, values in series.items() if len(values) == len(at)]
    return [
        Spot(
            f"{(place - 0.5) * step:.2f}",
            f"{step:.2f}",
            f"{where}: " + ", ".join(f"{name} {values[place]:{number_format}}" for name, values in full),
        )
        for place, where in enumerate(at)
    ]


def counted_bars(counts: Mapping[str, int], limit: int = 12) -> list[Bar]:
    """Return bars for the largest counts, and a last row for the sum of the others."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    top = max((count for _, count in ranked), default=1)
    bars = [Bar(name, count / top, f"{count:,}") for name, count in ranked[:limit]]
    rest = [count for _, count in ranked[limit:]]
    if rest:
        bars.append(Bar(f"{len(rest)} more", None, f"{sum(rest):,}"))
    return bars


def histogram_bars(least: float, most: float, counts: Sequence[int]) -> list[Bar]:
    """Return the bars of a histogram with equal bins from `least` to `most`."""
    top, step = max(counts, default=0) or 1, (most - least) / max(len(counts), 1)
    return [
        Bar(_span(least + place * step, least + (place + 1) * step), count / top, f"{count:,}")
        for place, count in enumerate(counts)
    ]


def doubling_bars(counts: Sequence[int]) -> list[Bar]:
    """Return the bars of a histogram with the bins 0, 1, 2 to 3, 4 to 7, and so on.

    Empty bins at the start are left out.
    """
    top = max(counts, default=0) or 1
    first = next((digits for digits, count in enumerate(counts) if count), 0)
    return [
        Bar(_doubling(digits), count / top, f"{count:,}")
        for digits, count in enumerate(counts)
        if digits >= first
    ]


def _doubling(digits: int) -> str:
    least, most = (1 << digits) >> 1, (1 << digits) - 1
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _span(begin: float, end: float) -> str:
    return f"{begin:.4g}" if begin == end else f"{begin:.4g} to {end:.4g}"


def score_bars(scores: Mapping[str, float], answered: Collection[str]) -> list[Bar]:
    """Return bars for probabilities, highest first. Labels that are not part of the answer are grey."""
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    return [Bar(name, score, f"{score:.1%}", quiet=name not in answered) for name, score in ranked]


def parts(figures: Iterable[tuple[str, float, str]]) -> list[ChartPart]:
    """Return the parts of a stacked bar from (name, amount, formatted amount)."""
    rows = list(figures)
    total = sum(amount for _, amount, _ in rows) or 1.0
    starts = accumulate((amount / total for _, amount, _ in rows), initial=0.0)
    return [
        ChartPart(name, amount / total, start, written)
        for (name, amount, written), start in zip(rows, starts, strict=False)
    ]


def level_parts(amounts: Mapping[str, float], whole: float, form: str = "{:.0%}") -> list[ChartPart]:
    """Return the parts of a stacked bar by lookup level. `form` formats the share of `whole`."""
    levels = [level for level in LEVELS if level in amounts]
    drawn = parts(
        (LEVELS[level], amounts[level], form.format(amounts[level] / (whole or 1))) for level in levels
    )
    return [replace(part, hue=level) for part, level in zip(drawn, levels, strict=True)]


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """A part of a stacked column, in a square of 100 with y downwards."""

    series: int
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Column:
    """A stacked column of one day or week, with its tooltip."""

    x: str
    width: str
    title: str
    blocks: list[ColumnPart]


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Stacked columns on a scale from 0 to `most`. `said` is the text alternative."""

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
    """Return a chart with a column per day, or per week for more than MAX_COLUMNS days.

    `by_day` has a value per series; days without values may be absent.
    """
    days = (until - since).days + 1
    step = 1 if days <= MAX_COLUMNS else 7
    starts = [since + timedelta(days=place) for place in range(0, days, step)]
    sums = [
        _series_sums(by_day, start, min(start + timedelta(days=step - 1), until), series) for start in starts
    ]
    top = max((sum(figures) for figures in sums), default=0)
    width = 100 / len(starts)
    columns = [
        Column(
            x=f"{(place + COLUMN_GAP / 2) * width:.3f}",
            width=f"{(1 - COLUMN_GAP) * width:.3f}",
            title=_column_title(start, step, series, figures),
            blocks=_column_parts(figures, top or 1),
        )
        for place, (start, figures) in enumerate(zip(starts, sums, strict=True))
    ]
    unit = "day" if step == 1 else "week"
    return ColumnChart(
        name=f"{name} a {unit}",
        series=list(series),
        columns=columns,
        most=f"{top:,}",
        first=day_text(since),
        last=day_text(until),
        said=f"{name} a {unit} from {day_text(since)} to {day_text(until)}, at most {top:,}",
    )


def _series_sums(
    by_day: Mapping[date, Sequence[int]], first: date, last: date, series: Sequence[str]
) -> list[int]:
    days = [by_day.get(first + timedelta(days=n)) for n in range((last - first).days + 1)]
    return [sum(figures[place] for figures in days if figures) for place in range(len(series))]


def _column_parts(figures: Sequence[int], top: int) -> list[ColumnPart]:
    blocks, below = [], 0.0
    for place, figure in enumerate(figures):
        height = 100 * figure / top
        if figure:
            blocks.append(ColumnPart(place, f"{100 - below - height:.3f}", f"{height:.3f}"))
        below += height
    return blocks


def _column_title(start: date, step: int, series: Sequence[str], figures: Sequence[int]) -> str:
    when = day_text(start) if step == 1 else f"The week from {day_text(start)}"
    counted = ", ".join(f"{figure:,} {name.lower()}" for name, figure in zip(series, figures, strict=True))
    return f"{when}: {counted}"


class ReliabilityBin(Protocol):
    """Rows of like confidence: how many, their mean confidence, and the share that was right."""

    @property
    def rows(self) -> int: ...

    @property
    def confidence(self) -> float: ...

    @property
    def right(self) -> float: ...


@dataclass(frozen=True, slots=True)
class ReliabilitySpot:
    """A point in a square of 100 with y downwards, with its tooltip."""

    x: str
    y: str
    title: str


@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """The share of right answers by confidence: SVG points, spots and the formatted calibration error."""

    name: str
    hue: str
    points: str
    spots: list[ReliabilitySpot]
    error: str


@dataclass(frozen=True, slots=True)
class ReliabilityChart:
    """A reliability diagram with several curves. `said` is the text alternative."""

    name: str
    curves: list[ReliabilityCurve]
    said: str


def reliability_curve(
    name: str, hue: str, bins: Sequence[ReliabilityBin], error: float | None
) -> ReliabilityCurve:
    """Return the curve of some bins."""
    spots = [
        ReliabilitySpot(
            f"{100 * one.confidence:.2f}",
            f"{100 - 100 * one.right:.2f}",
            f"{name}, {counted(one.rows, 'row')}: confidence {one.confidence:.1%}, {one.right:.1%} right",
        )
        for one in bins
    ]
    points = " ".join(f"{spot.x},{spot.y}" for spot in spots)
    return ReliabilityCurve(name, hue, points, spots, "–" if error is None else f"{error:.3f}")


def reliability_chart(name: str, curves: Sequence[ReliabilityCurve]) -> ReliabilityChart:
    """Return the diagram of these curves."""
    said = "; ".join(spot.title for curve in curves for spot in curve.spots)
    return ReliabilityChart(name, list(curves), f"Reliability, level {name}: {said}")
