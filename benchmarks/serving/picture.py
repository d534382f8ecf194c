"""The trace of the pipeline as a picture: the paper's figure 17."""

from collections.abc import Sequence
from html import escape

from inference.engine.trace import STAGES, Span, row_of

WIDTH, LANE, BAR, LEFT, TOP, BOTTOM = 960, 44, 28, 84, 12, 30
COLOURS = ("#3b6ea5", "#d9822b", "#4f9d69", "#8e5ea2", "#c44e52", "#64748b")
"""A batch has the same in every stage."""


def svg(spans: Sequence[Span], title: str) -> str:
    """Three stages against time, one more for each further batch that computes beside another; a bar for each
    piece of work."""
    if not spans:
        return ""
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    scale = (WIDTH - LEFT - 10) / (last - first)
    tracks = 1 + max(span.track for span in spans)
    rows = [*STAGES, *(row_of("compute", track) for track in range(1, tracks))]
    height = TOP + LANE * len(rows) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<style>text { font: 12px sans-serif; fill: #64748b }</style>",
        f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for at, row in enumerate(rows):
        middle = TOP + LANE * at + LANE / 2
        parts.append(f'<text x="8" y="{middle + 4}">{row}</text>')
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{middle}" y2="{middle}" stroke="#e2e8f0"/>')
    for span in spans:
        x, y = LEFT + (span.start - first) * scale, TOP + LANE * rows.index(span.row) + (LANE - BAR) / 2
        width = max(1.0, (span.end - span.start) * scale)
        colour = COLOURS[span.batch % len(COLOURS)]
        told = f"{span.name} {span.batch}: {1000 * (span.end - span.start):.1f} ms"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}" rx="2">'
            f"<title>{escape(told)}</title></rect>"
        )
    parts += [_tick(LEFT + share * (WIDTH - LEFT - 10), height, share * (last - first)) for share in _SHARES]
    return "\n".join([*parts, "</svg>\n"])


_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def _tick(x: float, height: int, seconds: float) -> str:
    anchor = "end" if x > WIDTH - 60 else "start"
    return f'<text x="{x:.0f}" y="{height - 10}" text-anchor="{anchor}">{1000 * seconds:.0f} ms</text>'
