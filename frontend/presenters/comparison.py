"""Versions of one model side by side: what was measured of each on its test split."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.presenters.metrics import Measured, label_rows, measured_of
from frontend.presenters.versions import measurements
from versiontree.tree.models import Version

COMPARED = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one version; `change` against the version before it in percentage points, if known."""

    figure: str
    change: float | None = None

    @property
    def signed(self) -> str:
        """The change with its sign."""
        return "" if self.change is None else f"{self.change:+.1f}"

    @property
    def trend(self) -> str:
        """Whether it rose, fell or stayed."""
        if self.change is None or abs(self.change) < 0.05:
            return ""
        return "rose" if self.change > 0 else "fell"


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of all versions."""

    name: str
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The versions' numbers, the oldest first; their figures; and the F1 of each label."""

    numbers: list[int]
    figures: list[Line]
    labels: list[Line]

    @property
    def newest(self) -> int:
        """The last of the numbers."""
        return self.numbers[-1]

    @property
    def before(self) -> int:
        """The one before it."""
        return self.numbers[-2]


def comparison_of(versions: Sequence[Version]) -> Comparison | None:
    """The measured ones among these versions side by side, the oldest first; nothing with fewer than two."""
    found = [(version, measured_of(measurements(version))) for version in versions]
    told = sorted(
        [(version, report) for version, report in found if report is not None],
        key=lambda pair: pair[0].number,
    )[-COMPARED:]
    if len(told) < 2:
        return None
    return Comparison(
        numbers=[version.number for version, _ in told],
        figures=_figures([report for _, report in told]),
        labels=_labels([version for version, _ in told]),
    )


def _figures(reports: Sequence[Measured]) -> list[Line]:
    named = [
        {report.name: report.value, **{one.name: one.figure for one in report.figures}} for report in reports
    ]
    names = dict.fromkeys(name for figures in named for name in figures)
    return [
        Line(name[:1].upper() + name[1:], [Cell(figures.get(name, "–")) for figures in named])
        for name in names
    ]


def _labels(versions: Sequence[Version]) -> list[Line]:
    scores = [{row.label: row.f1 for row in label_rows(measurements(version))} for version in versions]
    labels = dict.fromkeys(label for found in scores for label in found)
    return [Line(label, _cells([found.get(label) for found in scores])) for label in labels]


def _cells(scores: Sequence[float | None]) -> list[Cell]:
    before: list[float | None] = [None, *scores[:-1]]
    return [
        Cell(
            "–" if score is None else f"{score:.1%}",
            None if score is None or earlier is None else 100 * (score - earlier),
        )
        for score, earlier in zip(scores, before, strict=True)
    ]
