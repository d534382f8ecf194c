"""How the figures of a job went while it worked: curves, and what there is to know beside the bar."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frontend.presenters.charts import LineChart, line_chart
from frontend.presenters.metrics import LEVEL_NAMES
from frontend.presenters.wording import words
from versiontree.jobs.models import Job, JobState
from versiontree.tree.selectors.versions import is_number

CURVE_POINTS = 120
UNTOLD = ("stage", "step", "total")

_HUES = {name: level for level, name in LEVEL_NAMES.items()}
_LEVELS_LONGEST_FIRST = sorted(LEVEL_NAMES, key=len, reverse=True)


@dataclass(frozen=True, slots=True)
class Curves:
    """`charts`: figures that are told by level, each in one chart; `single`: the others, a chart each."""

    charts: list[LineChart]
    single: list[LineChart]


@dataclass(frozen=True, slots=True)
class Series:
    """The values of a figure, and where each was told."""

    values: list[float] = field(default_factory=list)
    at: list[str] = field(default_factory=list)


def curves_of(job: Job) -> Curves:
    """How each figure went that the job reported more than twice, the first reported first."""
    series = series_of(_reports(job))
    charts: dict[str, dict[str, Series]] = {}
    single = []
    for name, found in series.items():
        title, level = by_level(name)
        if level:
            charts.setdefault(title, {})[level] = found
        else:
            single.append(line_chart(title, {title: found.values}, at=found.at))
    order = list(LEVEL_NAMES.values())
    drawn = [
        line_chart(
            title,
            {level: lines[level].values for level in order if level in lines},
            _HUES,
            max((line.at for line in lines.values()), key=len),
        )
        for title, lines in charts.items()
    ]
    return Curves(drawn, single)


def _reports(job: Job) -> Iterable[Mapping[str, Any]]:
    """What the job reported, the first and the last and as many as a curve needs evenly between them."""
    told = job.events.filter(kind="metrics")
    places = list(told.order_by("pk").values_list("pk", flat=True))
    steps = min(len(places), CURVE_POINTS) - 1
    kept = {places[at * (len(places) - 1) // max(steps, 1)] for at in range(steps + 1)}
    return told.filter(pk__in=kept).order_by("pk").values_list("data", flat=True)


def series_of(reports: Iterable[Mapping[str, Any]]) -> dict[str, Series]:
    """Name of a figure -> its values in order; nested figures under their path, those told once left out."""
    series: dict[str, Series] = {}
    for number, data in enumerate(reports, 1):
        for name, value in flat(data):
            if name not in UNTOLD:
                found = series.setdefault(name, Series())
                found.values.append(value)
                found.at.append(_place(data, number))
    return {name: found for name, found in series.items() if len(found.values) > 2}


def _place(data: Mapping[str, Any], number: int) -> str:
    """Where a report was made: at a step, or as the so-manieth."""
    step = data.get("step")
    return f"step {step:,}" if isinstance(step, int) else f"report {number:,}"


def flat(data: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, float]]:
    """The numbers in nested objects, each under the names that lead to it."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name} ")
        elif is_number(value):
            yield f"{before}{name}", float(value)


def by_level(name: str) -> tuple[str, str]:
    """What a figure tells of, and of which level of fragments: unexplained_trigram_cut -> unexplained cut,
    tri-gram. The level is empty where it names none.
    """
    for level in _LEVELS_LONGEST_FIRST:
        if level in name:
            return words(name.replace(level, " ")) or "error", LEVEL_NAMES[level]
    return words(name), ""


def notice_of(job: Job) -> str:
    """What there is to know of an active job beside its bar: that it waits, or goes on after a stop."""
    if job.state == JobState.QUEUED and job.stage:
        return f"{job.stage.capitalize()}: the job starts automatically, on this machine or another."
    if job.state == JobState.RUNNING and job.attempt > 1:
        return "An earlier attempt was interrupted. This one continues from the last checkpoint."
    return ""
