"""Reads of jobs as a queue, and of what has changed of a job since somebody last looked."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID
from zlib import crc32

from django.db.models import Max

from versiontree.models import Job, JobEvent
from versiontree.models.job import JobState

_TOLD = ("state", "stage", "progress", "eta_seconds", "attempt", "heartbeat_at", "cancel_requested_at")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a job has come, as a word that differs whenever its page would."""

    word: str
    ended: bool


def queue_places(jobs: Iterable[Job]) -> dict[UUID, int]:
    """The place of each queued one of these jobs among all that are queued, whoever's: 1 is next; one query.

    Jobs that wait for another have no place yet.
    """
    queued = [job.pk for job in jobs if job.state == JobState.QUEUED]
    if not queued:
        return {}
    order = Job.unscoped.filter(state=JobState.QUEUED).order_by("priority", "queued_at", "pk")
    places = {pk: place for place, pk in enumerate(order.values_list("pk", flat=True), start=1)}
    return {pk: places[pk] for pk in queued if pk in places}


def job_marks(ids: Iterable[UUID]) -> dict[UUID, Mark]:
    """The mark of each of these jobs that is there; three queries at most, however many."""
    jobs = list(Job.unscoped.filter(pk__in=list(ids)).only(*_TOLD))
    events = JobEvent.unscoped.filter(job__in=jobs).order_by().values_list("job").annotate(Max("pk"))
    last, places = dict(events), queue_places(jobs)
    return {job.pk: _mark(job, last.get(job.pk, 0), places.get(job.pk)) for job in jobs}


def _mark(job: Job, event: int, place: int | None) -> Mark:
    told = [str(getattr(job, name)) for name in _TOLD]
    return Mark(f"{event}-{crc32(repr([told, place]).encode()):08x}", not job.is_active)
