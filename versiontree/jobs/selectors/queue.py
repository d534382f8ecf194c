"""Reads of jobs as a queue, and of what has changed of a job since somebody last looked."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from uuid import UUID
from zlib import crc32

from django.db.models import Max

from tenants.base.scope import platform_scope
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.models.job import JobState
from versiontree.jobs.selectors.durations import usual_seconds

_ORDER = ("priority", "queued_at", "pk")
_TOLD = ("state", "stage", "progress", "eta_seconds", "attempt", "heartbeat_at", "cancel_requested_at")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a job has come, as a word that differs whenever its page would."""

    word: str
    ended: bool


@dataclass(frozen=True, slots=True)
class Queue:
    """The place that a job has in the queue, or a new one would, 1 being next, and the seconds until its
    turn; None where nothing tells how long what is before it takes."""

    place: int
    wait_s: float | None


def queue_places(jobs: Iterable[Job]) -> dict[UUID, int]:
    """The place of each queued one of these jobs among all that are queued, whoever's: 1 is next; one query.

    Jobs that wait for another have no place yet.
    """
    queued = [job.pk for job in jobs if job.state == JobState.QUEUED]
    if not queued:
        return {}
    order = Job.unscoped.filter(state=JobState.QUEUED).order_by(*_ORDER)
    with platform_scope():
        places = {pk: place for place, pk in enumerate(order.values_list("pk", flat=True), start=1)}
    return {pk: places[pk] for pk in queued if pk in places}


def job_marks(ids: Iterable[UUID]) -> dict[UUID, Mark]:
    """The mark of each of these jobs that is there, whoever's; three queries at most, however many."""
    with platform_scope():
        return _marks(ids)


def _marks(ids: Iterable[UUID]) -> dict[UUID, Mark]:
    jobs = list(Job.unscoped.filter(pk__in=list(ids)).only(*_TOLD))
    events = JobEvent.unscoped.filter(job__in=jobs).order_by().values_list("job").annotate(Max("pk"))
    last, places = dict(events), queue_places(jobs)
    return {job.pk: _mark(job, last.get(job.pk, 0), places.get(job.pk)) for job in jobs}


def queue_standing(of: Job | None = None) -> Queue:
    """What a queued job waits for, or one that is asked for now would, whoever's that is."""
    with platform_scope():
        active = Job.unscoped.filter(state__in=[JobState.QUEUED, JobState.RUNNING])
        jobs = list(active.order_by(*_ORDER).only("kind", "state", "eta_seconds", "worker"))
    running = [job for job in jobs if job.state == JobState.RUNNING]
    queued = [job for job in jobs if job.state == JobState.QUEUED]
    before = list(takewhile(lambda job: of is None or job.pk != of.pk, queued))
    ahead = [*running, *before]
    usual = usual_seconds(job.kind for job in ahead)
    left = [usual.get(job.kind) if job.eta_seconds is None else job.eta_seconds for job in ahead]
    told = [seconds for seconds in left if seconds is not None]
    workers = len({job.worker for job in running}) or 1
    return Queue(1 + len(before), sum(told) / workers if len(told) == len(ahead) else None)


def _mark(job: Job, event: int, place: int | None) -> Mark:
    told = [str(getattr(job, name)) for name in _TOLD]
    return Mark(f"{event}-{crc32(repr([told, place]).encode()):08x}", not job.is_active)
