"""Everything there is to say of one job, as its page shows it: phases, events, configuration, clone."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from frontend.presenters.create_model import in_words
from frontend.presenters.job_curves import UNTOLD
from frontend.presenters.jobs import figures
from frontend.presenters.wording import plain, words
from tenants.accounts.models import Tenant
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.readiness import TimeUntilReady
from versiontree.tree.selectors.versions import as_mapping
from versiontree.tree.training_fields import LABELS
from versiontree.tree.training_settings import SETTING_SPECS, SettingSpec

CLONED = {VersionKind.HPLM: JobKind.FINE_TUNE, VersionKind.DOMAIN: JobKind.FURTHER_PRETRAIN}
"""The kind of job whose settings the form of a new one of these takes."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One line of a job's history."""

    pk: int
    at: datetime
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a job's work; without `seconds` it is not over."""

    name: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Where:
    """In which phase a failed job stopped, after how much of it, on which machine."""

    phase: str
    progress: float
    attempt: int
    max_attempts: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Ready:
    """What will be ready, in about what time; ``rough`` where that is hardly more than a guess."""

    what: str
    time: str
    rough: bool


def event_rows(events: Iterable[JobEvent]) -> list[EventRow]:
    """The rows of a list, in the order given."""
    return [EventRow(event.pk, event.at, event.kind, _event_text(event)) for event in events]


def phases_of(job: Job, told: Iterable[JobEvent]) -> list[Phase]:
    """The phases of the job's last attempt; `told` are its events, metrics left out, the oldest first."""
    begun: list[tuple[str, datetime]] = []
    end = job.finished_at
    for event in told:
        if event.kind == JobState.RUNNING:
            begun = []
        elif event.kind == "stage" and (not begun or begun[-1][0] != event.message):
            begun.append((event.message, event.at))
    ends = [*(at for _, at in begun[1:]), end]
    return [
        Phase(name, None if until is None else (until - at).total_seconds())
        for (name, at), until in zip(begun, ends, strict=False)
    ]


def where_of(job: Job) -> Where | None:
    """Where a failed job stopped."""
    if job.state != JobState.FAILED:
        return None
    return Where(job.stage or "the start", job.progress, job.attempt, job.max_attempts, job.finished_at)


def ready_shown(version: Version, left: TimeUntilReady | None) -> Ready | None:
    """When it can answer, where that can be told."""
    if left is None:
        return None
    first = version.number == 1
    what = VersionKind(version.kind).label if first else f"v{version.number}"
    return Ready(what, in_words(left.seconds), left.rough)


def configuration_of(job: Job) -> list[tuple[str, str]]:
    """What the job was asked to do, in words; defaults of the training code where nothing was said."""
    params = job.params
    rows = [(words(name), _given(value)) for name, value in params.items() if name != "settings"]
    settings = as_mapping(params.get("settings"))
    knobs = SETTING_SPECS[JobKind(job.kind)]
    rows += [(LABELS.get(name, words(name)), _set(settings, name, knob)) for name, knob in knobs.items()]
    return [(name[:1].upper() + name[1:], value) for name, value in rows if value]


def params_of(job: Job) -> str:
    """The same for a machine."""
    return json.dumps(job.params, indent=2, ensure_ascii=False)


def clone_url(tenant: Tenant, version: Version) -> str:
    """The form of a new job with the settings of those that built this version; empty where there is none."""
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
    """The form of another of its kind for a first version, that of a further version otherwise."""
    slug, first = tenant.slug, version.number == 1
    if version.hplm is not None:
        own = reverse("frontend:model_update", args=[slug, version.hplm.name])
        return reverse("frontend:model_new", args=[slug]) if first else own
    own = reverse("frontend:domain_update", args=[slug, version.domain_id])
    return reverse("frontend:domain_new", args=[slug]) if first else own


def _field_value(value: Any) -> Any:
    """As a form's field has it."""
    return str(value).lower() if isinstance(value, bool) else value


def _given(value: Any) -> str:
    """What a job was given, by its name where it has one."""
    named = as_mapping(value)
    return str(named["name"]) if "name" in named else plain(value)


def _set(settings: Mapping[str, Any], name: str, knob: SettingSpec) -> str:
    if name in settings:
        return plain(settings[name])
    return f"{plain(knob.default)} (default)" if knob.default is not None else ""


def _event_text(event: JobEvent) -> str:
    """The event's own words; a report of figures has none, so the figures speak."""
    if event.message or event.kind != "metrics":
        return event.message
    told = {name: value for name, value in event.data.items() if name not in UNTOLD}
    return ", ".join(f"{name} {figure}" for name, figure in figures(told))
