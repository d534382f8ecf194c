"""How long it takes until a version that is being built can answer: what is left of its jobs, and what is
before them in the queue."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import add
from typing import Final

from django.db.models import Exists, F, OuterRef, QuerySet, Sum
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.usage.models import UsageDay
from tenants.usage.selectors import usage_of
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.selectors import queue_position
from versiontree.tree.models import Alias, Hplm, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.estimates import job_estimates
from versiontree.tree.selectors.past_jobs import EstimateRange


@dataclass(frozen=True, slots=True)
class TimeUntilReady:
    """The seconds until a version is ready; ``rough`` where of one of its jobs only a model of cost tells."""

    seconds: EstimateRange
    rough: bool


def time_until_ready(version: Version, jobs: Iterable[Job]) -> TimeUntilReady | None:
    """What is left of these jobs, all that the version is built by, and the wait before them.

    None where it is not being built, where somebody stops it, and where nothing tells how long one of them
    takes.
    """
    left = [job for job in jobs if job.is_active]
    if version.state != VersionState.BUILDING or not left or any(job.cancel_requested_at for job in left):
        return None
    whole = job_estimates(version, (job for job in left if job.eta_seconds is None or _is_waiting(job)))
    told = [found for job in left if (found := _remaining(job, whole.get(job.pk))) is not None]
    if len(told) < len(left):
        return None
    return TimeUntilReady(reduce(add, (one.seconds for one in told)), any(one.rough for one in told))


def _is_waiting(job: Job) -> bool:
    return job.state != JobState.RUNNING


def _remaining(job: Job, whole: tuple[EstimateRange, int] | None) -> TimeUntilReady | None:
    """The rest of a job that runs, by its own word if it has given it; the whole of one that does not yet,
    after the wait for its turn if it is in the queue."""
    if job.eta_seconds is not None and not _is_waiting(job):
        return TimeUntilReady(_exact_range(job.eta_seconds), rough=False)
    if whole is None:
        return None
    span, jobs = whole
    if not _is_waiting(job):
        spent = (timezone.now() - job.started_at).total_seconds() if job.started_at else 0.0
        if spent >= span.high:
            return None
        rest = EstimateRange(*(max(0.0, seconds - spent) for seconds in (span.low, span.likely, span.high)))
        return TimeUntilReady(rest, rough=not jobs)
    wait = queue_position(job).wait_s if job.state == JobState.QUEUED else 0.0
    return None if wait is None else TimeUntilReady(_exact_range(wait) + span, rough=not jobs)


def _exact_range(seconds: float) -> EstimateRange:
    return EstimateRange(seconds, seconds, seconds)


HEALTH_DAYS: Final = 7


MAX_FAILED_SHARE: Final = 0.05
"""From this share of failed requests on, a model is not well."""


def recent_usage(tenant: Tenant, hplms: Iterable[Hplm]) -> QuerySet[UsageDay]:
    """By what the health of these models is judged: their usage in the last days, and nothing of what another
    of the same name was asked, which is deleted now."""
    return _recent_usage(tenant).filter(model_name__in=[hplm.name for hplm in hplms])


def hplms_failing(tenant: Tenant) -> QuerySet[Hplm]:
    """The tenant's models that answer, and of which too many requests failed in the last days."""
    summed = _recent_usage(tenant).order_by().values("model_name")
    counted = summed.annotate(asked_for=Sum("requests"), went_wrong=Sum("failed"))
    ill = counted.filter(asked_for__gt=0, went_wrong__gte=F("asked_for") * MAX_FAILED_SHARE)
    answering = Alias.unscoped.filter(hplm=OuterRef("pk"), name=DEFAULT_ALIAS)
    live = Hplm.objects.for_tenant(tenant).filter(Exists(answering), deleted_at=None)
    return live.filter(name__in=ill.values("model_name"))


def _recent_usage(tenant: Tenant) -> QuerySet[UsageDay]:
    since = datetime.now(UTC).date() - timedelta(days=HEALTH_DAYS)
    named = Hplm.objects.for_tenant(tenant).filter(deleted_at=None, name=OuterRef("model_name"))
    return usage_of(tenant, since).filter(Exists(named.filter(created_at__date__lte=OuterRef("day"))))
