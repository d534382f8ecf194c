"""The time until a version is ready, and which models fail too many requests."""

from collections.abc import Iterable
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
from versiontree.tree.selectors.estimates import jobs_estimate
from versiontree.tree.selectors.past_jobs import EstimateRange


def time_until_ready(version: Version, jobs: Iterable[Job]) -> EstimateRange | None:
    """The remaining time of these jobs, which are all jobs of the version, with their wait in the queue.

    None if the version is not being built, is being cancelled, or the time of a job is unknown.
    """
    active = [job for job in jobs if job.is_active]
    if version.state != VersionState.BUILDING or not active or any(job.cancel_requested_at for job in active):
        return None
    estimates = jobs_estimate(version, active)
    known = [left for job in active if (left := _time_left(job, estimates.get(job.kind))) is not None]
    return reduce(add, known) if len(known) == len(active) else None


def _time_left(job: Job, total: EstimateRange | None) -> EstimateRange | None:
    """A running job's ETA, or before its first progress the rest of its estimate. For other jobs the
    estimate, after the queue wait.

    A job with progress but no ETA tells nothing: its time left has not settled, see `workers.lease`.
    """
    runs = job.state == JobState.RUNNING
    if job.eta_seconds is not None and runs:
        return EstimateRange.exactly(job.eta_seconds)
    if total is None or (runs and job.progress):
        return None
    if runs:
        elapsed = (timezone.now() - job.started_at).total_seconds() if job.started_at else 0.0
        if elapsed >= total.high:
            return None
        return EstimateRange(*(max(0.0, end - elapsed) for end in (total.low, total.likely, total.high)))
    wait = queue_position(job).wait_s if job.state == JobState.QUEUED else 0.0
    return None if wait is None else EstimateRange.exactly(wait) + total


def past_range_left_behind(job: Job) -> EstimateRange | None:
    """The range of past jobs of this kind on this machine, if a running job takes longer than all of them."""
    if job.state != JobState.RUNNING or job.started_at is None:
        return None
    past = jobs_estimate(job.version, [job]).get(job.kind)
    taken = (timezone.now() - job.started_at).total_seconds()
    return past if past is not None and taken > past.high else None


HEALTH_DAYS: Final = 7
MAX_FAILED_SHARE: Final = 0.05
"""A model is unhealthy from this share of failed requests on."""


def recent_usage(tenant: Tenant, hplms: Iterable[Hplm]) -> QuerySet[UsageDay]:
    """The usage of these models in the last ``HEALTH_DAYS``, without that of deleted namesakes."""
    return _recent_usage(tenant).filter(model_name__in=[hplm.name for hplm in hplms])


def hplms_failing(tenant: Tenant) -> QuerySet[Hplm]:
    """The tenant's served models whose share of failed requests in the last ``HEALTH_DAYS`` is too high."""
    usage = _recent_usage(tenant).order_by().values("model_name")
    counts = usage.annotate(total_requests=Sum("requests"), total_failed=Sum("failed"))
    failing = counts.filter(total_requests__gt=0, total_failed__gte=F("total_requests") * MAX_FAILED_SHARE)
    default_alias = Alias.unscoped.filter(hplm=OuterRef("pk"), name=DEFAULT_ALIAS)
    served = Hplm.objects.for_tenant(tenant).filter(Exists(default_alias), deleted_at=None)
    return served.filter(name__in=failing.values("model_name"))


def _recent_usage(tenant: Tenant) -> QuerySet[UsageDay]:
    since = datetime.now(UTC).date() - timedelta(days=HEALTH_DAYS)
    living = Hplm.objects.for_tenant(tenant).filter(deleted_at=None, name=OuterRef("model_name"))
    return usage_of(tenant, since).filter(Exists(living.filter(created_at__date__lte=OuterRef("day"))))
