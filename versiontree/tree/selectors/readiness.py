"""How long it takes until a version that is being built can answer: what is left of its jobs, and what is
before them in the queue."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

from django.utils import timezone

from versiontree.jobs.models import Job
from versiontree.jobs.models.job import JobState
from versiontree.jobs.selectors.queue import queue_standing
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.estimates import job_estimates
from versiontree.tree.selectors.past_jobs import Span


@dataclass(frozen=True, slots=True)
class Readiness:
    """The seconds until a version is ready; ``rough`` where of one of its jobs only a model of cost tells."""

    seconds: Span
    rough: bool


def ready_in(version: Version, jobs: Iterable[Job]) -> Readiness | None:
    """What is left of these jobs, all that the version is built by, and the wait before them.

    None where it is not being built, where somebody stops it, and where nothing tells how long one of them
    takes.
    """
    left = [job for job in jobs if job.is_active]
    if version.state != VersionState.BUILDING or not left or any(job.cancel_requested_at for job in left):
        return None
    whole = job_estimates(version, (job for job in left if job.eta_seconds is None or _waits(job)))
    told = [found for job in left if (found := _left_of(job, whole.get(job.pk))) is not None]
    if len(told) < len(left):
        return None
    return Readiness(reduce(add, (one.seconds for one in told)), any(one.rough for one in told))


def _waits(job: Job) -> bool:
    return job.state != JobState.RUNNING


def _left_of(job: Job, whole: tuple[Span, int] | None) -> Readiness | None:
    """The rest of a job that runs, by its own word if it has given it; the whole of one that does not yet,
    after the wait for its turn if it is in the queue."""
    if job.eta_seconds is not None and not _waits(job):
        return Readiness(_exactly(job.eta_seconds), rough=False)
    if whole is None:
        return None
    span, jobs = whole
    if not _waits(job):
        spent = (timezone.now() - job.started_at).total_seconds() if job.started_at else 0.0
        if spent >= span.high:
            return None
        rest = Span(*(max(0.0, seconds - spent) for seconds in (span.low, span.likely, span.high)))
        return Readiness(rest, rough=not jobs)
    wait = queue_standing(job).wait_s if job.state == JobState.QUEUED else 0.0
    return None if wait is None else Readiness(_exactly(wait) + span, rough=not jobs)


def _exactly(seconds: float) -> Span:
    return Span(seconds, seconds, seconds)
