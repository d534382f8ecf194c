"""Versions side by side: data, settings and metrics, of one model or several."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frontend.presenters.metrics import label_rows, measured_of
from frontend.presenters.version_page import settings_of
from frontend.presenters.versions import measurements, parent_name, same_test
from frontend.status import style_of
from versiontree.tree.models import Version
from versiontree.tree.selectors.versions import as_mapping

MIN_VERSIONS: Final = 2
MAX_VERSIONS: Final = 4
NOTHING: Final = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a version. `differs` from the version to its left; `change` is the difference in percentage
    points, where it is a metric by label."""

    figure: str
    differs: bool = False
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
    """A setting or metric of all versions."""

    name: str
    cells: list[Cell]

    @property
    def same(self) -> bool:
        """Return whether it is the same for all."""
        return not any(cell.differs for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Section:
    """Lines of one kind."""

    name: str
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The versions, in the given order, and what is compared. `one_model`: they are of the same model;
    `one_test`: they were evaluated on the same test split; without it no metrics are set side by side."""

    versions: list[Version]
    sections: list[Section]
    one_model: bool
    one_test: bool

    @property
    def differences(self) -> int:
        """Return how many lines are not the same for all versions."""
        return sum(not line.same for section in self.sections for line in section.lines)


def comparison_of(versions: Sequence[Version]) -> Comparison:
    """Return the comparison of versions."""
    sections = [
        _section("Version", versions, _about),
        _section("Settings", versions, lambda version: dict(settings_of(version))),
    ]
    if one_test := same_test(*versions):
        sections += [_section("Metrics", versions, _metrics), Section("F1 by label", _label_lines(versions))]
    return Comparison(
        versions=list(versions),
        sections=[section for section in sections if section.lines],
        one_model=len({version.hplm_id for version in versions}) == 1,
        one_test=one_test,
    )


def newest_evaluated(versions: Iterable[Version]) -> list[Version]:
    """Return the newest versions with metrics, oldest first; none if they are too few to compare."""
    evaluated = [version for version in versions if measured_of(measurements(version))]
    newest = sorted(evaluated, key=lambda version: version.number)[-MAX_VERSIONS:]
    return newest if len(newest) >= MIN_VERSIONS else []


def _about(version: Version) -> dict[str, str]:
    dataset = as_mapping(version.config.get("dataset"))
    above = "" if version.parent is None else parent_name(version.parent)
    return {
        "Status": style_of(version.state).label,
        "Dataset": str(dataset.get("name", "")),
        "Base model": above,
    }


def _metrics(version: Version) -> dict[str, str]:
    report = measured_of(measurements(version))
    if report is None:
        return {}
    return {report.name: report.value, **{one.name: one.figure for one in report.figures}}


def _section(
    name: str, versions: Sequence[Version], values_of: Callable[[Version], Mapping[str, str]]
) -> Section:
    values = [values_of(version) for version in versions]
    names = dict.fromkeys(name for found in values for name in found)
    return Section(
        name, [Line(_title(each), _cells([one.get(each, "") for one in values])) for each in names]
    )


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


def _cells(figures: Sequence[str]) -> list[Cell]:
    shown = [figure or NOTHING for figure in figures]
    return [
        Cell(figure, differs=figure != before)
        for figure, before in zip(shown, [shown[0], *shown[:-1]], strict=True)
    ]


def _label_lines(versions: Sequence[Version]) -> list[Line]:
    scores = [{row["label"]: row["f1"] for row in label_rows(measurements(version))} for version in versions]
    labels = dict.fromkeys(label for found in scores for label in found)
    return [Line(label, _score_cells([found.get(label) for found in scores])) for label in labels]


def _score_cells(scores: Sequence[float | None]) -> list[Cell]:
    cells = _cells(["" if score is None else f"{score:.1%}" for score in scores])
    changes = [
        None if score is None or before is None else 100 * (score - before)
        for score, before in zip(scores, [None, *scores[:-1]], strict=True)
    ]
    return [Cell(cell.figure, cell.differs, change) for cell, change in zip(cells, changes, strict=True)]
