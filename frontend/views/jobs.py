"""Jobs: the list, the page of one, its live part, its log."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_member_required
from frontend.forms.lists import STATES, JobsForm
from frontend.job_stream import Subscription, stream_response
from frontend.presenters.job_curves import curves_of, notice_of
from frontend.presenters.job_page import (
    clone_url,
    configuration_of,
    event_rows,
    params_of,
    phases_of,
    ready_shown,
    where_of,
)
from frontend.presenters.jobs import JobRow, figures, job_row, job_rows
from frontend.shortcuts import paginate, redirect_to, render_page, run_action
from tenants.accounts.models import Role, Tenant
from versiontree.jobs.models import ACTIVE, TERMINAL, Job
from versiontree.jobs.selectors import job_detail, job_revisions, jobs_of, jobs_search, queue_positions
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.tree.selectors.readiness import time_until_ready

EVENTS_SHOWN = 40


LOG_LINES = 200


@require_GET
@tenant_member_required()
def index(request: TenantRequest) -> HttpResponse:
    """What runs, and a page of what ran, perhaps only that which the form above it chooses."""
    tenant = request.access.tenant
    initial = {"state": next(iter(STATES))}
    form = JobsForm(initial | request.GET.dict())
    asked = form.asked()
    found = jobs_search(tenant, **asked.chosen).filter(state__in=STATES[asked.shown])
    page = paginate(request, found.order_by(*asked.order))
    context: dict[str, Any] = {
        "at_work": at_work(tenant),
        "finished": job_rows(page),
        "page": page,
        "form": form,
        "states": list(STATES),
        "shown": asked.shown,
        "chosen": any(asked.chosen.values()),
    }
    return render_page(request, "jobs/index.html", **context)


@require_GET
@tenant_member_required()
def job(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The page of a job: drawn from the database, so a reload loses nothing."""
    tenant = request.access.tenant
    mark = job_revisions([pk]).get(pk)  # before the rest is read: what comes after it is followed
    job = job_detail(tenant, pk)
    return render_page(
        request,
        "jobs/job.html",
        mark=mark,
        configuration=configuration_of(job),
        params=params_of(job),
        clone=clone_url(tenant, job.version),
        **_live(tenant, job),
    )


@require_GET
@never_cache
@tenant_member_required()
def progress(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The live part alone; once the job has ended it asks for no more."""
    job = job_detail(request.access.tenant, pk)
    return render_page(request, "jobs/progress.html", swap=True, **_live(request.access.tenant, job))


@require_GET
@tenant_member_required()
def live(request: TenantRequest, pk: UUID) -> HttpResponseBase:
    """The stream that says when to ask for the live part; none where nothing happens any more, where too many
    are open, or where the web server would spend a thread on it."""
    job = job_detail(request.access.tenant, pk)
    if not job.is_active or not isinstance(request, ASGIRequest):
        return HttpResponse(status=204)
    last_id = request.headers.get("Last-Event-ID") or request.GET.get("after", "")
    return stream_response(Subscription(job.pk, request.access.membership.pk), last_id) or HttpResponse(
        status=204
    )


@require_GET
@tenant_member_required()
def log(request: TenantRequest, pk: UUID) -> HttpResponse:
    """All that happened to a job, the newest first, in pages."""
    job = job_detail(request.access.tenant, pk)
    page = paginate(request, job.events.order_by("-pk"), LOG_LINES)
    return render_page(request, "jobs/log.html", job=job_row(job), page=page, events=event_rows(page))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def cancel(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Cancel a job that waits; ask one that runs to stop."""
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
        "job": job_row(job, queue_positions([job]).get(job.pk)),
        "where": where_of(job),
        "events": event_rows(job.events.exclude(kind="metrics").order_by("-pk")[:EVENTS_SHOWN]),
        "phases": phases_of(job, job.events.exclude(kind="metrics").order_by("pk")),
        "steps": steps,
        "next": next((step for step in steps if step.after == job.pk and step.active), None),
        "ready": ready_shown(job.version, time_until_ready(job.version, jobs)),
        "curves": curves_of(job),
        "notice": notice_of(job),
        "metrics": figures(job.metrics),
    }


ENDED_SHOWN = 8


SEEN_AT_MOST = 200


CHANGED = "jobs-changed"
"""What the browser is told when a job has begun or ended: other parts of the page ask anew then."""


@dataclass(frozen=True, slots=True)
class AtWork:
    """The jobs that are not over, the oldest first, and those that the page saw end, the newest first."""

    active: list[JobRow]
    ended: list[JobRow]

    @property
    def query(self) -> str:
        """What the page asks with the next time: the jobs it knows."""
        known = {"active": self.active, "ended": self.ended}
        return urlencode({name: ".".join(job.pk.hex for job in jobs) for name, jobs in known.items()})


def at_work(tenant: Tenant, last_id: Iterable[UUID] = ()) -> AtWork:
    """What goes on in the tenant, whose quota bounds it, and how those ended that were `last_id` at work."""
    jobs, known = jobs_of(tenant), list(last_id)
    active = list(jobs.filter(state__in=ACTIVE).order_by("created_at"))
    over = jobs.filter(pk__in=known, state__in=TERMINAL).order_by("-finished_at")[:ENDED_SHOWN]
    rows = job_rows([*active, *(over if known else ())])
    return AtWork(rows[: len(active)], rows[len(active) :])


@require_GET
@never_cache
@tenant_member_required()
def running(request: TenantRequest) -> HttpResponse:
    """The jobs alone, with a word to the browser when others are at work than those it knows."""
    active, ended = _ids(request, "active"), _ids(request, "ended")
    found = at_work(request.access.tenant, [*active, *ended])
    answer = render_page(request, "jobs/running.html", at_work=found)
    if {job.pk for job in found.active} != active:
        answer["HX-Trigger"] = CHANGED
    return answer


def _ids(request: TenantRequest, name: str) -> set[UUID]:
    told = request.GET.get(name, "").split(".")[:SEEN_AT_MOST]
    return {UUID(one) for one in told if re.fullmatch("[0-9a-f]{32}", one)}
