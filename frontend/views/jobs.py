"""Jobs: the list, running jobs, the page of a job with its live part, and its log."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.lists import STATES, JobsForm
from frontend.job_stream import Subscription, stream_response
from frontend.presenters.cloning import clone_url
from frontend.presenters.job_charts import job_charts, notice_of
from frontend.presenters.job_page import (
    cancelled_by,
    configuration_of,
    event_rows,
    job_metrics,
    outlasted_text,
    phases_of,
    quick_answering,
    ready_estimate,
    trained_domain,
    trained_model,
)
from frontend.presenters.jobs import JobRow, job_row, job_rows, reported_metrics, stage_label
from frontend.shortcuts import paginate, redirect_to, render_page, run_action
from frontend.status import style_of
from inference.api.pending_response import ON_EVENT_LOOP
from tenants.accounts.models import Role, Tenant
from versiontree.jobs.models import ACTIVE, TERMINAL, Job, JobState
from versiontree.jobs.selectors import (
    job_detail,
    job_revisions,
    jobs_of,
    jobs_search,
    queue_positions,
)
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.jobs.services.notices import jobs_mark_seen
from versiontree.tree.selectors.readiness import past_range_left_behind, time_until_ready

EVENTS_SHOWN = 40
LOG_LINES = 200
ENDED_SHOWN = 8
MAX_KNOWN_JOBS = 200
CHANGED = "jobs-changed"
"""The browser event when the set of running jobs changes. Other parts of the page reload then."""


@require_GET
@tenant_member_required()
def index(request: TenantRequest) -> HttpResponse:
    """Running jobs, and the list of finished jobs with search and filters."""
    tenant, membership = request.access.tenant, request.access.membership
    if membership.unseen_jobs:
        jobs_mark_seen(membership=membership)
    initial = {"state": next(iter(STATES))}
    form = JobsForm(initial | request.GET.dict())
    query = form.query()
    found = jobs_search(tenant, **query.filters).filter(state__in=STATES[query.state])
    page = paginate(request, found.order_by(*query.order))
    context: dict[str, Any] = {
        "running_jobs": running_jobs(tenant),
        "finished": job_rows(page),
        "page": page,
        "form": form,
        "states": [(state, style_of(state).label if state in JobState else "All") for state in STATES],
        "selected_state": query.state,
        "filtered": any(query.filters.values()),
    }
    return render_page(request, "jobs/index.html", **context)


@require_GET
@tenant_member_required()
def job(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The page of a job."""
    tenant = request.access.tenant
    mark = job_revisions([pk]).get(pk)  # read first, so that the stream reports all later changes
    job = job_detail(tenant, pk)
    return render_page(
        request,
        "jobs/job.html",
        mark=mark,
        configuration=configuration_of(job),
        clone=clone_url(tenant, job.version),
        **_live(tenant, job),
    )


@require_GET
@never_cache
@tenant_member_required()
def progress(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The live part of the page of a job."""
    job = job_detail(request.access.tenant, pk)
    return render_page(request, "jobs/progress.html", swap=True, **_live(request.access.tenant, job))


@require_GET
@tenant_member_required()
def live(request: TenantRequest, pk: UUID) -> HttpResponseBase:
    """The event stream of a job.

    The response is 204 if the job has ended, the server has no event loop to send the events from, or an
    administrator views the page; 429 if too many streams are open.
    """
    tenant = request.access.tenant
    job = job_detail(tenant, pk)
    if not job.is_active or ON_EVENT_LOOP not in request.META or request.access.view_until:
        return HttpResponse(status=204)
    last_id = request.headers.get("Last-Event-ID") or request.GET.get("after", "")
    return stream_response(Subscription(job.pk, request.access.membership.pk), last_id, tenant=tenant)


@require_GET
@tenant_member_required()
def log(request: TenantRequest, pk: UUID) -> HttpResponse:
    """All events of a job, newest first."""
    job = job_detail(request.access.tenant, pk)
    page = paginate(request, job.events.order_by("-pk"), LOG_LINES)
    return render_page(
        request, "jobs/log.html", job=job, row=job_row(job), page=page, events=event_rows(page)
    )


@require_POST
@tenant_member_required(Role.DEVELOPER)
def cancel(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Cancel a job. A running one is asked to stop."""
    job = job_detail(request.access.tenant, pk)
    run_action(request, lambda: job_cancel(job=job, actor=request.user))
    return redirect_to(request, "job", pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def retry(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Put a failed or cancelled job back in the queue."""
    job = job_detail(request.access.tenant, pk)
    run_action(request, lambda: job_retry(job=job, actor=request.user))
    return redirect_to(request, "job", pk)


def _live(tenant: Tenant, job: Job) -> dict[str, Any]:
    jobs = list(jobs_of(tenant).filter(version=job.version_id).order_by("created_at", "kind"))
    steps = job_rows(jobs)
    return {
        "job": job,
        "row": job_row(job, queue_positions([job]).get(job.pk)),
        "events": event_rows(job.events.exclude(kind="metrics").order_by("-pk")[:EVENTS_SHOWN]),
        "phases": phases_of(job, job.events.exclude(kind="metrics").order_by("pk")),
        "steps": steps,
        "unfinished": any(step.job.is_active for step in steps),
        "next": next((step for step in steps if step.job.after_id == job.pk and step.job.is_active), None),
        "quick": quick_answering(job.version) if job.is_active else None,
        "trained": None if job.is_active else trained_model(job.version),
        "trained_domain": None if job.is_active else trained_domain(job.version),
        "cancelled_by": cancelled_by(job.events.order_by("-pk")) if job.state == JobState.CANCELLED else "",
        "failed_in": stage_label(job.stage) or "starting",
        "outlasted": outlasted_text(past_range_left_behind(job)),
        "ready": ready_estimate(job.version, time_until_ready(job.version, jobs)),
        "charts": job_charts(job),
        "notice": notice_of(job),
        "metrics": job_metrics(reported_metrics(job)),
    }


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """Active jobs, oldest first, and those that ended while the page was open, newest first."""

    active: list[JobRow]
    ended: list[JobRow]

    @property
    def query(self) -> str:
        """The query of the next poll: the jobs that the page knows."""
        known = {"active": self.active, "ended": self.ended}
        return urlencode({name: ".".join(row.job.pk.hex for row in rows) for name, rows in known.items()})


def running_jobs(tenant: Tenant, known: Collection[UUID] = ()) -> RunningJobs:
    """Return the active jobs of a tenant, and those of the `known` ones that have ended."""
    jobs = jobs_of(tenant)
    active = list(jobs.filter(state__in=ACTIVE).order_by("created_at"))
    over = jobs.filter(pk__in=known, state__in=TERMINAL).order_by("-finished_at")[:ENDED_SHOWN]
    rows = job_rows([*active, *(over if known else ())])
    return RunningJobs(rows[: len(active)], rows[len(active) :])


@require_GET
@never_cache
@tenant_member_required()
def running(request: TenantRequest) -> HttpResponse:
    """The running jobs, as a part of a page. Triggers `jobs-changed` if their set has changed."""
    active, ended = _ids(request, "active"), _ids(request, "ended")
    found = running_jobs(request.access.tenant, active | ended)
    response = render_page(request, "jobs/running.html", running_jobs=found)
    if {row.job.pk for row in found.active} != active:
        response["HX-Trigger"] = CHANGED
    return response


def _ids(request: TenantRequest, name: str) -> set[UUID]:
    ids = request.GET.get(name, "").split(".")[:MAX_KNOWN_JOBS]
    return {UUID(one) for one in ids if re.fullmatch("[0-9a-f]{32}", one)}
