"""Webhook events of jobs, aliases and drift, created in the transaction of the change."""

from collections.abc import Mapping
from datetime import date
from typing import Final
from uuid import UUID

from tenants.webhooks.models import EventKind
from tenants.webhooks.services.events import event_create, event_links, subscribed_endpoints
from versiontree.jobs.models import Job, JobState
from versiontree.tree.models import Hplm, Version

WEBHOOK_EVENTS: Final[Mapping[JobState, EventKind]] = {
    JobState.RUNNING: EventKind.JOB_STARTED,
    JobState.SUCCEEDED: EventKind.JOB_SUCCEEDED,
    JobState.FAILED: EventKind.JOB_FAILED,
    JobState.CANCELLED: EventKind.JOB_CANCELLED,
}


def job_notify(*, job_id: UUID | str, state: JobState) -> None:
    """Notify webhooks of a job's new state. Jobs of the platform and background jobs have no webhooks."""
    kind = WEBHOOK_EVENTS.get(state)
    if kind is None:
        return
    tenant_id = Job.shown.values_list("tenant_id", flat=True).filter(pk=job_id).first()
    endpoints = subscribed_endpoints(tenant_id, kind) if tenant_id is not None else []
    if not endpoints:
        return
    rows = Job.unscoped.select_related("tenant", "version__hplm", "version__domain", "version__root")
    job = rows.get(pk=job_id)
    version = job.version
    data = {
        **event_links(endpoints[0].tenant, job=f"jobs/{job.pk}", version=f"versions/{version.pk}"),
        "job": str(job.pk),
        "kind": job.kind,
        "state": state.value,
        "error_code": job.error_code or None,
        "version": _version(version),
    }
    event_create(endpoints=endpoints, kind=kind, data=data)


def alias_notify(*, hplm: Hplm, name: str, before: int | None, version: Version | None) -> None:
    """Notify webhooks that an alias points at ``version`` (None: removed). ``before`` is the former id."""
    endpoints = subscribed_endpoints(hplm.tenant_id, EventKind.ALIAS_MOVED)
    if not endpoints:
        return
    previous = Version.unscoped.filter(pk=before).first() if before else None
    links = {"model": f"models/{hplm.name}"} | ({"version": f"versions/{version.pk}"} if version else {})
    data = {
        **event_links(endpoints[0].tenant, **links),
        "model": hplm.name,
        "alias": name,
        "version": _version(version) if version else None,
        "previous": _version(previous) if previous else None,
    }
    event_create(endpoints=endpoints, kind=EventKind.ALIAS_MOVED, data=data)


def drift_notify(*, version: Version, day: date, figures: Mapping[str, Mapping[str, float]]) -> None:
    """Notify webhooks that a version's answers of a day left their band. ``figures``: by name, as served and
    on the dev split."""
    assert version.tenant_id is not None
    endpoints = subscribed_endpoints(version.tenant_id, EventKind.VERSION_DRIFTED)
    if not endpoints:
        return
    data = {
        **event_links(endpoints[0].tenant, version=f"versions/{version.pk}"),
        "version": _version(version),
        "day": day.isoformat(),
        "figures": figures,
    }
    event_create(endpoints=endpoints, kind=EventKind.VERSION_DRIFTED, data=data)


def _version(version: Version) -> dict[str, object]:
    return {"id": version.pk, "kind": version.kind, "name": version.name, "number": version.number}
