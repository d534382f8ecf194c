"""The frontier in one picture, as SVG: metric against processor time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.serving.picture import COLOURS

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 170, 14, 46
MARGIN = 0.1
"""Beyond the outermost points, as a share of their distance."""
TICKS = 5


def frontier_svg(points: Mapping[str, tuple[float, float]], *, title: str, x: str, y: str) -> str:
    """A mark for each method at its cost and its metric."""
    across = _Axis.around([point[0] for point in points.values()], LEFT, WIDTH - RIGHT)
    up = _Axis.around([point[1] for point in points.values()], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<style>text { font: 12px sans-serif; fill: #64748b }</style>",
        f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for value in across.ticks():
        at = across.place(value)
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#e2e8f0"/>'
        )
        parts.append(f'<text x="{at:.0f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    for value in up.ticks():
        at = up.place(value)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.0f}" text-anchor="end">{value:g}</text>')
    middle, half = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x)}</text>')
    turned = f'transform="rotate(-90 14 {half})" text-anchor="middle"'
    parts.append(f'<text x="14" y="{half}" {turned}>{escape(y)}</text>')
    for number, (name, (cost, metric)) in enumerate(points.items()):
        colour, row = COLOURS[number % len(COLOURS)], TOP + 16 + 20 * number
        told = escape(f"{name}: {cost:.2f}, {metric:.1f}")
        parts.append(
            f'<circle cx="{across.place(cost):.1f}" cy="{up.place(metric):.1f}" r="5" fill="{colour}"'
            f' fill-opacity="{1 if number < len(COLOURS) else 0.5}"><title>{told}</title></circle>'
        )
        parts.append(f'<circle cx="{WIDTH - RIGHT + 19}" cy="{row - 4}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 30}" y="{row}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from `low` to `high` between two edges of the picture."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], begin: float, end: float) -> "_Axis":
        """With all values in it."""
        margin = MARGIN * (max(values) - min(values)) or 1.0
        return cls(min(values) - margin, max(values) + margin, begin, end)

    def place(self, value: float) -> float:
        """Where a value lies."""
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Round values within the axis: multiples of 1, 2 or 5 times a power of ten."""
        distance = (self.high - self.low) / TICKS
        power = 10.0 ** math.floor(math.log10(distance))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= distance)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [round(step * number, 10) for number in range(first, last + 1)]
