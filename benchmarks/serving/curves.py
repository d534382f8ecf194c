"""Curves in one picture, as SVG: a line for each scheme."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.serving.picture import COLOURS

Curve = Sequence[tuple[float, float]]
"""Points, from left to right."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 72, 150, 14, 46


def curves(lines: Mapping[str, Curve], *, title: str, x: str, y: str, tall: bool) -> str:
    """The lines by name, over a logarithmic x; ``tall``: y is logarithmic too, else a share from 0 to 1.
    All that is drawn on a logarithmic axis must be above 0."""
    points = [point for line in lines.values() for point in line]
    across = _Axis.decades([point[0] for point in points], LEFT, WIDTH - RIGHT)
    high = [point[1] for point in points]
    up = _Axis.decades(high, HEIGHT - BOTTOM, TOP) if tall else _Axis.share(HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<style>text { font: 12px sans-serif; fill: #64748b }</style>",
        f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for value, at in across.ticks():
        parts.append(_line(at, TOP, at, HEIGHT - BOTTOM))
        parts.append(f'<text x="{at:.0f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:,g}</text>')
    for value, at in up.ticks():
        parts.append(_line(LEFT, at, WIDTH - RIGHT, at))
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.0f}" text-anchor="end">{value:,g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x)}</text>')
    half = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {half})" text-anchor="middle"'
    parts.append(f'<text x="14" y="{half}" {turned}>{escape(y)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour, row = COLOURS[number % len(COLOURS)], TOP + 16 + 20 * number
        drawn = " ".join(f"{across.place(one):.1f},{up.place(other):.1f}" for one, other in line)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<rect x="{WIDTH - RIGHT + 14}" y="{row - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 30}" y="{row}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


class _Axis:
    """Values to places between two edges of the picture."""

    def __init__(self, marks: Sequence[float], begin: float, end: float, *, logarithmic: bool) -> None:
        self._marks, self._begin, self._end, self._logarithmic = marks, begin, end, logarithmic

    @classmethod
    def decades(cls, values: Sequence[float], begin: float, end: float) -> "_Axis":
        """Logarithmic, from the power of ten below all values to the one above."""
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        marks = [10.0**power for power in range(first, max(last, first + 1) + 1)]
        return cls(marks, begin, end, logarithmic=True)

    @classmethod
    def share(cls, begin: float, end: float) -> "_Axis":
        """From 0 to 1."""
        return cls([0.0, 0.25, 0.5, 0.75, 1.0], begin, end, logarithmic=False)

    def place(self, value: float) -> float:
        """Where a value lies."""
        low, high, value = (self._scaled(one) for one in (self._marks[0], self._marks[-1], value))
        return self._begin + (value - low) / (high - low) * (self._end - self._begin)

    def ticks(self) -> list[tuple[float, float]]:
        """Values that are written at the axis, and where."""
        return [(mark, self.place(mark)) for mark in self._marks]

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self._logarithmic else value


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#e2e8f0"/>'
