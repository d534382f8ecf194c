"""Figures as the shared chart partials draw them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a bar list: `share` in 0..1 of the full width."""

    name: str
    share: float
    figure: str
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a whole: it begins at `start` and takes `share`, both in 0..1."""

    name: str
    share: float
    start: float
    figure: str


@dataclass(frozen=True, slots=True)
class Curve:
    """How a figure went: `points` of a polyline in a square of 100, y downwards, and its ends in words."""

    name: str
    points: str
    first: str
    last: str


def curve_of(name: str, values: Sequence[float]) -> Curve:
    """The curve of at least two values at equal steps."""
    least, span = min(values), (max(values) - min(values)) or 1.0
    step = 100 / (len(values) - 1)
    places = (
        f"{place * step:.2f},{96 - (value - least) / span * 92:.2f}" for place, value in enumerate(values)
    )
    return Curve(name, " ".join(places), f"{values[0]:.4g}", f"{values[-1]:.4g}")


def counted_bars(counts: Mapping[str, int], limit: int = 12) -> list[Bar]:
    """The largest counts first, against the largest of them; a last, quiet bar sums up the others."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    top = max((count for _, count in ranked), default=1)
    bars = [Bar(name, count / top, f"{count:,}") for name, count in ranked[:limit]]
    rest = [count for _, count in ranked[limit:]]
    if rest:
        bars.append(Bar(f"{len(rest)} more", min(1.0, sum(rest) / top), f"{sum(rest):,}", quiet=True))
    return bars


def score_bars(scores: Mapping[str, float]) -> list[Bar]:
    """Probabilities, the highest first; all but the first are quiet."""
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    return [Bar(name, score, f"{score:.1%}", quiet=place > 0) for place, (name, score) in enumerate(ranked)]


def parts(figures: Iterable[tuple[str, float, str]]) -> list[Part]:
    """Parts of a whole from (name, amount, written figure), laid end to end."""
    rows = list(figures)
    total = sum(amount for _, amount, _ in rows) or 1.0
    starts = accumulate((amount / total for _, amount, _ in rows), initial=0.0)
    return [
        Part(name, amount / total, start, written)
        for (name, amount, written), start in zip(rows, starts, strict=False)
    ]
