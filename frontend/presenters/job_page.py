"""The page of a job: phases, events, configuration, and the link to clone it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from frontend.presenters.formatting import key_label, setting_value, time_range
from frontend.presenters.job_charts import NOT_METRICS
from frontend.presenters.jobs import figures
from tenants.accounts.models import Tenant
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.readiness import TimeUntilReady
from versiontree.tree.selectors.versions import as_mapping
from versiontree.tree.training_fields import LABELS
from versiontree.tree.training_settings import SettingSpec, setting_specs

CLONED = {VersionKind.HPLM: JobKind.FINE_TUNE, VersionKind.DOMAIN: JobKind.FURTHER_PRETRAIN}
"""The kind of job whose settings the form for a version of this kind takes."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a job."""

    pk: int
    at: datetime
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a job. `seconds` is None while it is running."""

    name: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class FailurePlace:
    """Phase, progress and attempt in which a job failed."""

    phase: str
    progress: float
    attempt: int
    max_attempts: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class ReadyEstimate:
    """The estimated time until a version is ready. `rough` marks estimates from few past jobs."""

    what: str
    time: str
    rough: bool


def event_rows(events: Iterable[JobEvent]) -> list[EventRow]:
    """Return the rows of events, in the given order."""
    return [EventRow(event.pk, event.at, event.kind, _event_text(event)) for event in events]


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
        Phase(name, None if until is None else (until - at).total_seconds())
        for (name, at), until in zip(begun, ends, strict=False)
    ]


def failure_place(job: Job) -> FailurePlace | None:
    """Return where the job failed; None if it has not failed."""
    if job.state != JobState.FAILED:
        return None
    return FailurePlace(
        job.stage or "the start", job.progress, job.attempt, job.max_attempts, job.finished_at
    )


def ready_estimate(version: Version, left: TimeUntilReady | None) -> ReadyEstimate | None:
    """Return the formatted time until the version is ready; None if unknown."""
    if left is None:
        return None
    first = version.number == 1
    what = VersionKind(version.kind).label if first else f"v{version.number}"
    return ReadyEstimate(what, time_range(left.seconds), left.rough)


def configuration_of(job: Job) -> list[tuple[str, str]]:
    """Return the parameters of the job with labels, including defaults."""
    params = job.params
    rows = [(key_label(name), _parameter(value)) for name, value in params.items() if name != "settings"]
    settings = as_mapping(params.get("settings"))
    specs = setting_specs(JobKind(job.kind), RootKind(job.version.root.kind))
    rows += [
        (LABELS.get(name, key_label(name)), _setting(settings, name, spec)) for name, spec in specs.items()
    ]
    return [(name[:1].upper() + name[1:], value) for name, value in rows if value]


def params_of(job: Job) -> str:
    """Return the parameters of the job as JSON."""
    return json.dumps(job.params, indent=2, ensure_ascii=False)


def clone_url(tenant: Tenant, version: Version) -> str:
    """Return the URL of a form filled with the settings of this version; empty if it cannot be cloned."""
    kind = VersionKind(version.kind)
    source = version.dataset_id if kind == VersionKind.HPLM else version.corpus_id
    if kind not in CLONED or source is None:
        return ""
    config = version.config
    filled: dict[str, Any] = {
        "dataset" if kind == VersionKind.HPLM else "corpus": source,
        **{name: config[name] for name in ("alpha", "vectors") if name in config},
        **{name: _field_value(value) for name, value in as_mapping(config.get("settings")).items()},
    }
    if version.number == 1:
        filled |= {"name": f"{version.name}-2"[:63], "parent": version.parent_id}
    return f"{_form(tenant, version)}?{urlencode(filled)}"


def _form(tenant: Tenant, version: Version) -> str:
    """Return the URL of the form: for a new object if this is version 1, otherwise for an update."""
    slug, first = tenant.slug, version.number == 1
    if version.hplm is not None:
        own = reverse("frontend:model_update", args=[slug, version.hplm.name])
        return reverse("frontend:model_new", args=[slug]) if first else own
    own = reverse("frontend:domain_update", args=[slug, version.domain_id])
    return reverse("frontend:domain_new", args=[slug]) if first else own


def _field_value(value: Any) -> Any:
    """Return the value of the form field."""
    return str(value).lower() if isinstance(value, bool) else value


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
    if event.message or event.kind != "metrics":
        return event.message
    metrics = {name: value for name, value in event.data.items() if name not in NOT_METRICS}
    return ", ".join(f"{name} {figure}" for name, figure in figures(metrics))
