"""Queries for jobs, their events, their queue positions and their revisions."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import Any, Final
from uuid import UUID
from zlib import crc32

from django.db.models import DurationField, ExpressionWrapper, F, Max, Q, QuerySet
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.base.dispatch import TRAINING_QUEUE
from tenants.base.errors import not_found
from tenants.base.scope import platform_scope
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState

RECENT_JOBS: Final = 20


def median_durations(kinds: Iterable[str]) -> dict[str, float]:
    """The median seconds of the last succeeded jobs of each kind, without kinds that have none."""
    found = {}
    with platform_scope():
        for kind in dict.fromkeys(kinds):
            if times := list(succeeded_jobs(JobKind(kind)).values_list("took", flat=True)[:RECENT_JOBS]):
                found[kind] = median(took.total_seconds() for took in times)
    return found


def succeeded_jobs(*kinds: JobKind) -> QuerySet[Any]:
    """Succeeded jobs of these kinds, newest first, annotated with their duration as ``took``.

    Only those of one attempt: the others also waited for the next one.
    """
    done = Job.unscoped.filter(kind__in=kinds, state=JobState.SUCCEEDED, attempt=1)
    took = ExpressionWrapper(F("finished_at") - F("started_at"), output_field=DurationField())
    timed = done.filter(started_at__isnull=False, finished_at__isnull=False).annotate(took=took)
    return timed.order_by("-finished_at")


def jobs_of(tenant: Tenant | None) -> QuerySet[Job]:
    """The tenant's jobs (None: the platform's), newest first, with their versions."""
    return Job.shown.filter(tenant=tenant).select_related(
        "version__root", "version__domain__root", "version__hplm__tenant", "tenant", "after"
    )


def job_detail(tenant: Tenant | None, job_id: UUID | str) -> Job:
    """One of the owner's jobs, or ``not_found``."""
    try:
        wanted = UUID(str(job_id))
    except ValueError as error:
        raise not_found("job", param="job") from error
    return _found(jobs_of(tenant).filter(pk=wanted).first())


def job_by_id(job_id: UUID) -> Job:
    """A job of any tenant or of the platform, or ``not_found``. For staff."""
    return _found(Job.shown.select_related("tenant").filter(pk=job_id).first())


def job_events(job: Job, *, after: int = 0) -> QuerySet[JobEvent]:
    """The events of a job after the event with this id, oldest first."""
    return JobEvent.unscoped.filter(job=job, pk__gt=after).order_by("pk")


def jobs_search(tenant: Tenant | None, *, words: str = "", kind: str = "") -> QuerySet[Job]:
    """The tenant's jobs (None: the platform's), newest first, of a kind and with these words in the domain's
    or model's name."""
    found = jobs_of(tenant).filter(kind=kind) if kind else jobs_of(tenant)
    for word in words.split():
        of_hplm, of_domain = Q(version__hplm__name__icontains=word), Q(version__domain__name__icontains=word)
        found = found.filter(of_hplm | of_domain)
    return found


def _found(job: Job | None) -> Job:
    if job is None:
        raise not_found("job")
    return job


QUEUE_ORDER = ("priority", "queued_at", "pk")


REVISION_FIELDS = (
    "state",
    "stage",
    "progress",
    "eta_seconds",
    "attempt",
    "heartbeat_at",
    "cancel_requested_at",
)


@dataclass(frozen=True, slots=True)
class JobRevision:
    """A word that changes whenever a job's page would show something else, and whether the job has ended."""

    word: str
    ended: bool


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """A job's position in the queue, 1 is next, and the estimated seconds until it starts (None: unknown)."""

    position: int
    wait_s: float | None


def queue_positions(jobs: Iterable[Job]) -> dict[UUID, int]:
    """The queue positions of those of these jobs that are queued; 1 is next. One query.

    A queue has the jobs of all tenants. A job that waits for another is not in it yet.
    """
    queued = [job.pk for job in jobs if job.state == JobState.QUEUED]
    if not queued:
        return {}
    order = Job.shown.filter(state=JobState.QUEUED).order_by(*QUEUE_ORDER)
    with platform_scope():
        rows = list(order.values_list("pk", "kind"))
    queues: dict[str, list[UUID]] = defaultdict(list)
    for pk, kind in rows:
        queues[JobKind(kind).queue].append(pk)
    positions = {pk: number for queue in queues.values() for number, pk in enumerate(queue, start=1)}
    return {pk: positions[pk] for pk in queued if pk in positions}


def job_revisions(ids: Iterable[UUID]) -> dict[UUID, JobRevision]:
    """The revisions of these jobs, of any tenant, without unknown ids. At most three queries."""
    with platform_scope():
        return _revisions(ids)


def _revisions(ids: Iterable[UUID]) -> dict[UUID, JobRevision]:
    jobs = list(Job.unscoped.filter(pk__in=list(ids)).only(*REVISION_FIELDS))
    events = JobEvent.unscoped.filter(job__in=jobs).order_by().values_list("job").annotate(Max("pk"))
    last, positions = dict(events), queue_positions(jobs)
    return {job.pk: _revision(job, last.get(job.pk, 0), positions.get(job.pk)) for job in jobs}


def queue_position(job: Job | None = None) -> QueuePosition:
    """The position of a queued job, or that of a training created now, among the jobs of all tenants."""
    queue = TRAINING_QUEUE if job is None else JobKind(job.kind).queue
    with platform_scope():
        active = Job.shown.filter(state__in=[JobState.QUEUED, JobState.RUNNING]).order_by(*QUEUE_ORDER)
        rows = active.only("kind", "state", "eta_seconds", "worker", "started_at")
        jobs = [one for one in rows if JobKind(one.kind).queue == queue]
    running = [one for one in jobs if one.state == JobState.RUNNING]
    queued = [one for one in jobs if one.state == JobState.QUEUED]
    before = list(takewhile(lambda one: job is None or one.pk != job.pk, queued))
    ahead = [*running, *before]
    medians = median_durations(one.kind for one in ahead)
    remaining = [_remaining(one, medians.get(one.kind)) for one in ahead]
    known = [seconds for seconds in remaining if seconds is not None]
    workers = len({one.worker for one in running}) or 1
    return QueuePosition(1 + len(before), sum(known) / workers if len(known) == len(ahead) else None)


def _remaining(job: Job, median_s: float | None) -> float | None:
    """The seconds that a job still takes: its ETA, or the rest of the median duration of its kind."""
    if job.eta_seconds is not None or median_s is None:
        return job.eta_seconds
    elapsed = (
        (timezone.now() - job.started_at).total_seconds()
        if job.state == JobState.RUNNING and job.started_at
        else 0.0
    )
    return max(0.0, median_s - elapsed)


def _revision(job: Job, event: int, position: int | None) -> JobRevision:
    values = [str(getattr(job, name)) for name in REVISION_FIELDS]
    return JobRevision(f"{event}-{crc32(repr([values, position]).encode()):08x}", not job.is_active)
