"""The jobs that are at work, for the pages that show them live."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from frontend.access import TenantRequest, tenant_page
from frontend.pages import show
from frontend.presenters.jobs import JobRow, job_rows
from tenants.accounts.models import Tenant
from versiontree.jobs.models.job import ACTIVE, TERMINAL
from versiontree.jobs.selectors.jobs import jobs_of

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


def at_work(tenant: Tenant, seen: Iterable[UUID] = ()) -> AtWork:
    """What goes on in the tenant, whose quota bounds it, and how those ended that were `seen` at work."""
    jobs, known = jobs_of(tenant), list(seen)
    active = list(jobs.filter(state__in=ACTIVE).order_by("created_at"))
    over = jobs.filter(pk__in=known, state__in=TERMINAL).order_by("-finished_at")[:ENDED_SHOWN]
    rows = job_rows([*active, *(over if known else ())])
    return AtWork(rows[: len(active)], rows[len(active) :])


@require_GET
@never_cache
@tenant_page()
def running(request: TenantRequest) -> HttpResponse:
    """The jobs alone, with a word to the browser when others are at work than those it knows."""
    active, ended = _ids(request, "active"), _ids(request, "ended")
    found = at_work(request.place.tenant, [*active, *ended])
    answer = show(request, "jobs/running.html", at_work=found)
    if {job.pk for job in found.active} != active:
        answer["HX-Trigger"] = CHANGED
    return answer


def _ids(request: TenantRequest, name: str) -> set[UUID]:
    told = request.GET.get(name, "").split(".")[:SEEN_AT_MOST]
    return {UUID(one) for one in told if re.fullmatch("[0-9a-f]{32}", one)}
