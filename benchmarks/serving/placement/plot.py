"""A simulated cluster over time, as SVG: Punica's figure 13, with the working sets under each policy."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from benchmarks.serving.picture import COLOURS
from benchmarks.serving.placement.cluster import Outcome, Sample, Setup

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760, 74, 14, 22, 40
LINE, LANE, GAP = 90, 9, 34
"""Heights of a panel with a line, of a worker's lane, and between panels."""
SLICES: Final = 72
"""Slices of time that are drawn."""
TICKS: Final = 6

Points = Sequence[tuple[float, float]]
"""Seconds and a value at that moment."""


def placement_svg(outcomes: Mapping[str, Outcome], setup: Setup) -> str:
    """Requests a second and tokens a second of the first policy; for each policy a lane for each worker, the
    fuller the more rows it has."""
    samples = next(iter(outcomes.values())).samples
    panels = _Panels(setup)
    panels.line("requests/s", _rates(samples, lambda sample: sample.requests))
    panels.line("tokens/s", _rates(samples, lambda sample: sample.tokens))
    for number, (name, outcome) in enumerate(outcomes.items()):
        title = f"rows of {setup.workers} workers: {name}"
        panels.lanes(title, outcome.samples, COLOURS[number % len(COLOURS)])
    return panels.svg()


def _rates(samples: Sequence[Sample], count: Callable[[Sample], int]) -> Points:
    """How fast a count grew until each moment."""
    pairs = pairwise(_thinned(samples))
    return [(two.at, (count(two) - count(one)) / (two.at - one.at)) for one, two in pairs]


def _thinned(samples: Sequence[Sample]) -> Sequence[Sample]:
    return samples[:: max(1, len(samples) // SLICES)]


class _Panels:
    """Panels below each other over one axis of time."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._parts: list[str] = []
        self._top = TOP

    def line(self, title: str, points: Points) -> None:
        """A line from 0 to the highest value."""
        top, most = self._top, max((value for _, value in points), default=0.0) or 1.0
        for y, value in ((top, most), (top + LINE, 0.0)):
            self._parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#e2e8f0"/>')
            self._parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:,.0f}</text>')
        drawn = " ".join(
            f"{self._across(at):.1f},{top + LINE * (1 - value / most):.1f}" for at, value in points
        )
        self._parts.append(
            f'<polyline points="{drawn}" fill="none" stroke="{COLOURS[0]}" stroke-width="1.5"/>'
        )
        self._end(title, LINE)

    def lanes(self, title: str, samples: Sequence[Sample], colour: str) -> None:
        """A worker's lane is filled up to its rows; the worker with the highest id is on top."""
        limit, workers = self._setup.limits.rows, self._setup.workers
        for worker in range(workers):
            bottom = self._top + LANE * (workers - worker)
            drawn = [f"M{LEFT} {bottom}"]
            for one, two in pairwise(_thinned(samples)):
                height = (LANE - 1) * one.rows.get(worker, 0) / limit
                drawn.append(f"V{bottom - height:.1f}H{self._across(two.at):.0f}")
            self._parts.append(f'<path d="{"".join(drawn)}V{bottom}Z" fill="{colour}"/>')
        self._end(title, LANE * workers)

    def svg(self) -> str:
        """All panels, and the minutes below them."""
        bottom = self._top - GAP
        height = bottom + BOTTOM
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<style>text { font: 12px sans-serif; fill: #64748b }</style>",
            f'<title>A cluster over time</title><rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            *self._parts,
        ]
        for tick in range(TICKS + 1):
            seconds = self._setup.seconds * tick / TICKS
            at = self._across(seconds)
            parts.append(f'<text x="{at:.0f}" y="{bottom + 18}" text-anchor="middle">{seconds / 60:g}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{height - 6}" text-anchor="middle">minutes</text>')
        return "\n".join([*parts, "</svg>\n"])

    def _across(self, seconds: float) -> float:
        return LEFT + seconds / self._setup.seconds * (WIDTH - LEFT - RIGHT)

    def _end(self, title: str, height: int) -> None:
        self._parts.append(f'<text x="{LEFT}" y="{self._top - 6}">{escape(title)}</text>')
        self._top += height + GAP
