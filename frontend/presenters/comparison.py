"""The comparison of a model's versions by their metrics on the test split."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.presenters.metrics import Measured, label_rows, measured_of
from frontend.presenters.versions import measurements
from versiontree.tree.models import Version

MAX_VERSIONS = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """A metric of a version. `change` is the difference from the previous version in percentage points."""

    figure: str
    change: float | None = None

    @property
    def signed(self) -> str:
        """Return the change with its sign."""
        return "" if self.change is None else f"{self.change:+.1f}"

    @property
    def trend(self) -> str:
        """Return the CSS class of the change: rose, fell, or none."""
        if self.change is None or abs(self.change) < 0.05:
            return ""
        return "rose" if self.change > 0 else "fell"


@dataclass(frozen=True, slots=True)
class Line:
    """A metric of all compared versions."""

    name: str
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The compared versions, oldest first: their numbers, metrics, and F1 by label."""

    numbers: list[int]
    figures: list[Line]
    labels: list[Line]

    @property
    def newest(self) -> int:
        """Return the number of the newest version."""
        return self.numbers[-1]

    @property
    def before(self) -> int:
        """Return the number of the version before the newest."""
        return self.numbers[-2]


def comparison_of(versions: Sequence[Version]) -> Comparison | None:
    """Return the comparison of the evaluated versions, or None if there are fewer than two."""
    found = [(version, measured_of(measurements(version))) for version in versions]
    evaluated = sorted(
        [(version, report) for version, report in found if report is not None],
        key=lambda pair: pair[0].number,
    )[-MAX_VERSIONS:]
    if len(evaluated) < 2:
        return None
    return Comparison(
        numbers=[version.number for version, _ in evaluated],
        figures=_figures([report for _, report in evaluated]),
        labels=_labels([version for version, _ in evaluated]),
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
