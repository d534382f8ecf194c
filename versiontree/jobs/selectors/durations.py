"""How long jobs took, for guessing how long others will."""

from collections.abc import Iterable
from statistics import median
from typing import Any, Final

from django.db.models import DurationField, ExpressionWrapper, F, QuerySet

from tenants.base.scope import platform_scope
from versiontree.jobs.models import Job
from versiontree.jobs.models.job import JobKind, JobState

LATELY: Final = 20


def usual_seconds(kinds: Iterable[str]) -> dict[str, float]:
    """What the last jobs of each of these kinds took, the median; without those of which there are none."""
    found = {}
    with platform_scope():
        for kind in dict.fromkeys(kinds):
            if times := list(_succeeded(JobKind(kind)).values_list("took", flat=True)[:LATELY]):
                found[kind] = median(took.total_seconds() for took in times)
    return found


def _succeeded(kind: JobKind) -> QuerySet[Any]:
    """The newest first, with how long each ``took``; what was tried more than once also waited."""
    done = Job.unscoped.filter(kind=kind, state=JobState.SUCCEEDED, attempt=1)
    took = ExpressionWrapper(F("finished_at") - F("started_at"), output_field=DurationField())
    timed = done.filter(started_at__isnull=False, finished_at__isnull=False).annotate(took=took)
    return timed.order_by("-finished_at")
