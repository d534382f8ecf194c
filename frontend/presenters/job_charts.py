"""The charts of a job's metrics, and the notice beside its progress bar."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frontend.presenters.charts import LineChart, line_chart
from frontend.presenters.formatting import key_label
from frontend.presenters.metrics import LEVEL_NAMES
from versiontree.jobs.models import Job, JobState
from versiontree.tree.selectors.versions import is_number

MAX_POINTS = 120
NOT_METRICS = ("stage", "step", "total")

_HUES = {name: level for level, name in LEVEL_NAMES.items()}
_LEVELS_LONGEST_FIRST = sorted(LEVEL_NAMES, key=len, reverse=True)


@dataclass(frozen=True, slots=True)
class JobCharts:
    """`charts` are the metrics with several lookup levels; `single` are the others, one line each."""

    charts: list[LineChart]
    single: list[LineChart]


@dataclass(frozen=True, slots=True)
class Series:
    """The values of a metric, with the label of each position."""

    values: list[float] = field(default_factory=list)
    at: list[str] = field(default_factory=list)


def job_charts(job: Job) -> JobCharts:
    """Return a chart for each metric that the job reported more than twice."""
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
    return JobCharts(drawn, single)


def _reports(job: Job) -> Iterable[Mapping[str, Any]]:
    """Return at most MAX_POINTS reports of the job, evenly spaced, including the first and the last."""
    events = job.events.filter(kind="metrics")
    places = list(events.order_by("pk").values_list("pk", flat=True))
    steps = min(len(places), MAX_POINTS) - 1
    kept = {places[at * (len(places) - 1) // max(steps, 1)] for at in range(steps + 1)}
    return events.filter(pk__in=kept).order_by("pk").values_list("data", flat=True)


def series_of(reports: Iterable[Mapping[str, Any]]) -> dict[str, Series]:
    """Return the series with at least three values by name. Nested metrics are named by their path."""
    series: dict[str, Series] = {}
    for number, data in enumerate(reports, 1):
        for name, value in flat(data):
            if name not in NOT_METRICS:
                found = series.setdefault(name, Series())
                found.values.append(value)
                found.at.append(_place(data, number))
    return {name: found for name, found in series.items() if len(found.values) > 2}


def _place(data: Mapping[str, Any], number: int) -> str:
    """Return the label of a report: its step, or its number."""
    step = data.get("step")
    return f"step {step:,}" if isinstance(step, int) else f"report {number:,}"


def flat(data: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, float]]:
    """Yield the numbers in nested objects, named by their path."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name} ")
        elif is_number(value):
            yield f"{before}{name}", float(value)


def by_level(name: str) -> tuple[str, str]:
    """Split the name of a metric into label and lookup level.

    "unexplained_trigram_cut" becomes ("approximation error cut", "tri-gram"). The level may be empty.
    """
    for level in _LEVELS_LONGEST_FIRST:
        if level in name:
            label = name.replace(level, " ").replace("unexplained", "approximation error")
            return key_label(label) or "error", LEVEL_NAMES[level]
    return key_label(name), ""


def notice_of(job: Job) -> str:
    """Return a notice for a job that waits for resources or was interrupted; otherwise an empty string."""
    if job.state == JobState.QUEUED and job.stage:
        return f"{job.stage.capitalize()}: the job starts automatically, on this machine or another."
    if job.state == JobState.RUNNING and job.attempt > 1:
        return "An earlier attempt was interrupted. This one continues from the last checkpoint."
    return ""
