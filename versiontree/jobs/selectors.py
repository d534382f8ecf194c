"""Reads of jobs as a queue, and of what has changed of a job since somebody last looked."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import Any, Final
from uuid import UUID
from zlib import crc32

from django.db.models import DurationField, ExpressionWrapper, F, Max, Q, QuerySet

from tenants.accounts.models import Tenant
from tenants.base.errors import not_found
from tenants.base.scope import platform_scope
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState

RECENT_JOBS: Final = 20


def median_durations(kinds: Iterable[str]) -> dict[str, float]:
    """What the last jobs of each of these kinds took, the median; without those of which there are none."""
    found = {}
    with platform_scope():
        for kind in dict.fromkeys(kinds):
            if times := list(succeeded_jobs(JobKind(kind)).values_list("took", flat=True)[:RECENT_JOBS]):
                found[kind] = median(took.total_seconds() for took in times)
    return found


def succeeded_jobs(kind: JobKind) -> QuerySet[Any]:
    """The newest first, with how long each ``took``; what was tried more than once also waited."""
    done = Job.unscoped.filter(kind=kind, state=JobState.SUCCEEDED, attempt=1)
    took = ExpressionWrapper(F("finished_at") - F("started_at"), output_field=DurationField())
    timed = done.filter(started_at__isnull=False, finished_at__isnull=False).annotate(took=took)
    return timed.order_by("-finished_at")


def jobs_of(tenant: Tenant | None) -> QuerySet[Job]:
    """The tenant's jobs (None: the platform's), newest first, with their versions."""
    return Job.unscoped.filter(tenant=tenant).select_related(
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
    """For staff: a job, whoever's, or ``not_found``."""
    return _found(Job.unscoped.select_related("tenant").filter(pk=job_id).first())


def job_events(job: Job, *, after: int = 0) -> QuerySet[JobEvent]:
    """What happened to the job since the event with this id, oldest first."""
    return JobEvent.unscoped.filter(job=job, pk__gt=after).order_by("pk")


def jobs_search(tenant: Tenant | None, *, words: str = "", kind: str = "") -> QuerySet[Job]:
    """The tenant's jobs (None: the platform's), newest first: those of a kind, those with these words in the
    name of what they are for."""
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
    """How far a job has come, as a word that differs whenever its page would."""

    word: str
    ended: bool


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The place that a job has in the queue, or a new one would, 1 being next, and the seconds until its
    turn; None where nothing tells how long what is before it takes."""

    place: int
    wait_s: float | None


def queue_positions(jobs: Iterable[Job]) -> dict[UUID, int]:
    """The place of each queued one of these jobs among all that are queued, whoever's: 1 is next; one query.

    Jobs that wait for another have no place yet.
    """
    queued = [job.pk for job in jobs if job.state == JobState.QUEUED]
    if not queued:
        return {}
    order = Job.unscoped.filter(state=JobState.QUEUED).order_by(*QUEUE_ORDER)
    with platform_scope():
        places = {pk: place for place, pk in enumerate(order.values_list("pk", flat=True), start=1)}
    return {pk: places[pk] for pk in queued if pk in places}


def job_revisions(ids: Iterable[UUID]) -> dict[UUID, JobRevision]:
    """The mark of each of these jobs that is there, whoever's; three queries at most, however many."""
    with platform_scope():
        return _revisions(ids)


def _revisions(ids: Iterable[UUID]) -> dict[UUID, JobRevision]:
    jobs = list(Job.unscoped.filter(pk__in=list(ids)).only(*REVISION_FIELDS))
    events = JobEvent.unscoped.filter(job__in=jobs).order_by().values_list("job").annotate(Max("pk"))
    last, places = dict(events), queue_positions(jobs)
    return {job.pk: _revision(job, last.get(job.pk, 0), places.get(job.pk)) for job in jobs}


def queue_position(of: Job | None = None) -> QueuePosition:
    """What a queued job waits for, or one that is asked for now would, whoever's that is."""
    with platform_scope():
        active = Job.unscoped.filter(state__in=[JobState.QUEUED, JobState.RUNNING])
        jobs = list(active.order_by(*QUEUE_ORDER).only("kind", "state", "eta_seconds", "worker"))
    running = [job for job in jobs if job.state == JobState.RUNNING]
    queued = [job for job in jobs if job.state == JobState.QUEUED]
    before = list(takewhile(lambda job: of is None or job.pk != of.pk, queued))
    ahead = [*running, *before]
    usual = median_durations(job.kind for job in ahead)
    left = [usual.get(job.kind) if job.eta_seconds is None else job.eta_seconds for job in ahead]
    told = [seconds for seconds in left if seconds is not None]
    workers = len({job.worker for job in running}) or 1
    return QueuePosition(1 + len(before), sum(told) / workers if len(told) == len(ahead) else None)


def _revision(job: Job, event: int, place: int | None) -> JobRevision:
    told = [str(getattr(job, name)) for name in REVISION_FIELDS]
    return JobRevision(f"{event}-{crc32(repr([told, place]).encode()):08x}", not job.is_active)
