"""The page of a job: phases, events and configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.text import capfirst

from frontend.presenters.formatting import key_label, setting_value, time_range
from frontend.presenters.job_charts import NOT_METRICS
from frontend.presenters.jobs import figures, stage_label
from frontend.presenters.metrics import measured_of
from frontend.presenters.promotions import (
    ComparedRow,
    LowerDefault,
    PendingPromotion,
    compared_rows,
    lower_default,
    pending_promotions,
)
from frontend.presenters.versions import VersionRow, is_ready, version_row
from versiontree.job_settings import SettingSpec
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.past_jobs import EstimateRange
from versiontree.tree.selectors.versions import as_mapping, default_of
from versiontree.tree.training_settings import setting_specs


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a job. `seconds` is None while it is running."""

    name: str
    seconds: float | None


def job_metrics(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the metrics of a job as (label, formatted value). Those of an evaluation are the ones on the
    page of its version."""
    measured = measured_of(metrics)
    if measured is None:
        return figures(metrics)
    return [
        (capfirst(measured.name), ", ".join(filter(None, (measured.value, measured.interval)))),
        *((one.name, one.figure) for one in measured.figures),
    ]


def event_rows(events: Iterable[JobEvent]) -> list[tuple[JobEvent, str]]:
    """Return events with their texts, in the given order."""
    return [(event, _event_text(event)) for event in events]


def phases_of(job: Job, events: Iterable[JobEvent]) -> list[Phase]:
    """Return the phases of the job's last attempt, from its events without metrics, oldest first."""
    begun: list[tuple[str, datetime]] = []
    end = job.finished_at
    for event in events:
        if event.kind == JobState.RUNNING:
            begun = []
        elif event.kind == "stage" and (not begun or begun[-1][0] != event.message):
            begun.append((event.message, event.at))
    ends = [*(at for _, at in begun[1:]), end]
    return [
        Phase(stage_label(name), None if until is None else (until - at).total_seconds())
        for (name, at), until in zip(begun, ends, strict=False)
    ]


def ready_estimate(version: Version, left: EstimateRange | None) -> dict[str, str]:
    """Return what will be ready, and the formatted time until then; empty if unknown."""
    if left is None:
        return {}
    what = VersionKind(version.kind).label if version.number == 1 else f"v{version.number}"
    return {"what": what, "time": time_range(left)}


def outlasted_text(past: EstimateRange | None) -> str:
    """Return the notice of a job that takes longer than all past ones, whose range is given."""
    if past is None:
        return ""
    return f"This job takes longer than usual. Past jobs of its kind on this machine took {time_range(past)}."


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A ready version of a model with its main metric, the version before it on the same rows, and whether it
    waits to be promoted, or became the default although it scores lower."""

    row: VersionRow
    compared: list[ComparedRow]
    pending: list[PendingPromotion]
    lower: LowerDefault | None


def trained_model(version: Version) -> TrainedModel | None:
    """Return what the jobs of a version made; None if it is not a model that is ready. At most three
    queries."""
    if version.hplm is None or not is_ready(version):
        return None
    default = default_of(version)
    pending = pending_promotions([version], default)
    lower = lower_default(default) if default == version else None
    return TrainedModel(version_row(version), compared_rows(version), pending, lower)


def trained_domain(version: Version) -> Version | None:
    """Return the version if it is a domain's and ready: models can be trained on it."""
    return version if version.domain is not None and is_ready(version) else None


def quick_answering(version: Version) -> Version | None:
    """Return the quick version that answers until this one is ready, if there is one. One query."""
    default = None if version.hplm is None or version.is_quick else default_of(version)
    return default if default is not None and default.is_quick else None


def cancelled_by(events: Iterable[JobEvent]) -> str:
    """Return the event that says who cancelled the job, of its events, newest first; empty without one.

    A running job has two: a user's request, and the end at its worker, which names nobody.
    """
    messages: dict[str, str] = {}
    for event in events:
        if event.kind == JobState.RUNNING:
            break
        messages.setdefault(event.kind, event.message)
    return messages.get("cancel_requested") or messages.get(JobState.CANCELLED, "")


def configuration_of(job: Job) -> list[tuple[str, str]]:
    """Return the parameters of the job with labels, including defaults."""
    params = job.params
    rows = [(key_label(name), _parameter(value)) for name, value in params.items() if name != "settings"]
    settings = as_mapping(params.get("settings"))
    specs = setting_specs(JobKind(job.kind), RootKind(job.version.root.kind))
    rows += [(spec.label, _setting(settings, name, spec)) for name, spec in specs.items()]
    return [(name[:1].upper() + name[1:], value) for name, value in rows if value]


def _parameter(value: Any) -> str:
    """Format a parameter: the name of an object, otherwise the value."""
    named = as_mapping(value)
    return str(named["name"]) if "name" in named else setting_value(value)


def _setting(settings: Mapping[str, Any], name: str, spec: SettingSpec) -> str:
    if name in settings:
        return setting_value(settings[name])
    return f"{setting_value(spec.default)} (default)" if spec.default is not None else ""


def _event_text(event: JobEvent) -> str:
    """Return the message of an event, or its metrics if it has none."""
    if event.kind == "stage":
        return stage_label(event.message)
    if event.message or event.kind != "metrics":
        return event.message
    metrics = {name: value for name, value in event.data.items() if name not in NOT_METRICS}
    return ", ".join(f"{name} {figure}" for name, figure in figures(metrics))
