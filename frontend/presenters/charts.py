"""Figures as the shared chart partials draw them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from tenants.usage.selectors import UsageTotal

LEVELS: Final = {
    "trigram": "Whole fragment",
    "bigram": "Shorter part",
    "unigram": "One token",
    "computed": "Computed",
}
"""By the API's names, the most telling first."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the head of a page, with a remark below it."""

    name: str
    figure: str
    note: str = ""


def usage_tiles(
    usage: UsageTotal, *, hplms: int, ready: int, max_models: int, jobs: int, max_jobs: int
) -> list[Tile]:
    """The tiles of the home page."""
    return [
        Tile("Models ready", f"{ready:,}", f"{hplms:,} of {max_models:,} created"),
        Tile("Running jobs", f"{jobs:,}", f"of at most {max_jobs:,}"),
        Tile("Requests this month", f"{usage.requests:,}", f"{usage.failed:,} failed"),
        Tile("Texts this month", f"{usage.inputs:,}", f"{usage.tokens:,} tokens"),
    ]


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a bar list: `share` in 0..1 of the full width, None where no bar would tell the truth;
    `near` where a limit is all but reached."""

    name: str
    share: float | None
    figure: str
    quiet: bool = False
    near: bool = False


@dataclass(frozen=True, slots=True)
class ChartPart:
    """One part of a whole: it begins at `start` and takes `share`, both in 0..1; `hue` where its colour means
    something."""

    name: str
    share: float
    start: float
    figure: str
    hue: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """How a figure went: `points` of a polyline in a square of 100, y downwards, and its ends in words; `hue`
    where its colour means something."""

    name: str
    points: str
    first: str
    last: str
    hue: str = ""


def curve_of(name: str, values: Sequence[float]) -> Curve:
    """The curve of at least two values at equal steps."""
    return _curve(name, values, min(values), max(values))


def _curve(name: str, values: Sequence[float], least: float, most: float) -> Curve:
    span, step = (most - least) or 1.0, 100 / (len(values) - 1)
    places = (
        f"{place * step:.2f},{96 - (value - least) / span * 92:.2f}" for place, value in enumerate(values)
    )
    return Curve(name, " ".join(places), f"{values[0]:.4g}", f"{values[-1]:.4g}")


@dataclass(frozen=True, slots=True)
class Spot:
    """A strip of a chart that says, under the mouse, what stands there; `x` and `width` in 0..100."""

    x: str
    width: str
    title: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Curves that share one scale; `least` and `most` are its ends in words, `began` and `now` where the
    first and the last value were taken."""

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
) -> LineChart:
    """The curves of several figures, each of at least two values at equal steps, in one square of 100; `hues`
    by their names, `at` says of each value where it was taken."""
    every = [value for values in series.values() for value in values]
    least, most = min(every), max(every)
    drawn = [_curve(line, values, least, most) for line, values in series.items()]
    lines = [replace(curve, hue=(hues or {}).get(curve.name, "")) for curve in drawn]
    ends = (at[0], at[-1]) if at else ("", "")
    return LineChart(name, lines, f"{least:.4g}", f"{most:.4g}", *ends, _spots(series, at))


def _spots(series: Mapping[str, Sequence[float]], at: Sequence[str]) -> list[Spot]:
    """One for each place, as wide as it is from the middle to its neighbours."""
    step = 100 / max(len(at) - 1, 1)
    told = [(name, values) for name, values in series.items() if len(values) == len(at)]
    return [
        Spot(
            f"{(place - 0.5) * step:.2f}",
            f"{step:.2f}",
            f"{where}: " + ", ".join(f"{name} {values[place]:.4g}" for name, values in told),
        )
        for place, where in enumerate(at)
    ]


def counted_bars(counts: Mapping[str, int], limit: int = 12) -> list[Bar]:
    """The largest counts first, against the largest of them; a last line without a bar sums up the others."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    top = max((count for _, count in ranked), default=1)
    bars = [Bar(name, count / top, f"{count:,}") for name, count in ranked[:limit]]
    rest = [count for _, count in ranked[limit:]]
    if rest:
        bars.append(Bar(f"{len(rest)} more", None, f"{sum(rest):,}"))
    return bars


def histogram_bars(least: float, most: float, counts: Sequence[int]) -> list[Bar]:
    """How many values fall into each of equal steps from the least to the greatest value."""
    top, step = max(counts, default=0) or 1, (most - least) / max(len(counts), 1)
    return [
        Bar(_span(least + place * step, least + (place + 1) * step), count / top, f"{count:,}")
        for place, count in enumerate(counts)
    ]


def doubling_bars(counts: Sequence[int]) -> list[Bar]:
    """How many lengths are 0, 1, 2 to 3, 4 to 7, and so on; from the first that there are."""
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
    """Probabilities, the highest first; those that were not answered are quiet."""
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    return [Bar(name, score, f"{score:.1%}", quiet=name not in answered) for name, score in ranked]


def parts(figures: Iterable[tuple[str, float, str]]) -> list[ChartPart]:
    """Parts of a whole from (name, amount, written figure), laid end to end."""
    rows = list(figures)
    total = sum(amount for _, amount, _ in rows) or 1.0
    starts = accumulate((amount / total for _, amount, _ in rows), initial=0.0)
    return [
        ChartPart(name, amount / total, start, written)
        for (name, amount, written), start in zip(rows, starts, strict=False)
    ]


def level_parts(amounts: Mapping[str, float], whole: float, form: str = "{:.0%}") -> list[ChartPart]:
    """Parts of a whole by the levels that `amounts` has, each with its share written as `form` has it."""
    told = [level for level in LEVELS if level in amounts]
    drawn = parts(
        (LEVELS[level], amounts[level], form.format(amounts[level] / (whole or 1))) for level in told
    )
    return [replace(part, hue=level) for part, level in zip(drawn, told, strict=True)]
