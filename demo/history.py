"""The past of a large installation: jobs that are over, and usage by day and model."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, cycle, islice
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tenants.usage.models import UsageDay
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import Version

AT_ONCE: Final = 2_000
STEPS: Final = (JobKind.FINE_TUNE, JobKind.EVALUATE)
REPORTS: Final = 5
"""Figures that each job told while it ran."""


@transaction.atomic
def jobs_remember(*, versions: Sequence[Version], count: int) -> None:
    """So many jobs that are over, two for each version in turn; every tenth pair ended badly."""
    draw = random.Random(count)  # noqa: S311 - figures to look at
    pairs = (_steps(version, draw, ill=n % 10 == 9) for n, version in enumerate(cycle(versions)))
    jobs = list(islice(chain.from_iterable(pairs), count))
    Job.unscoped.bulk_create(jobs, batch_size=AT_ONCE)
    JobEvent.unscoped.bulk_create(_events(jobs), batch_size=AT_ONCE)


def usage_remember(*, versions: Sequence[Version], count: int) -> None:
    """So many rows of usage: of each model one a day, as far back as it takes. Days that are there stay."""
    draw = random.Random(count)  # noqa: S311 - figures to look at
    rows = islice(_days(versions, draw), count)
    while some := list(islice(rows, AT_ONCE)):
        UsageDay.unscoped.bulk_create(some, ignore_conflicts=True)


def _steps(version: Version, draw: random.Random, *, ill: bool) -> list[Job]:
    begun = timezone.now() - timedelta(minutes=draw.uniform(10, 60 * 24 * 30))
    took = timedelta(seconds=draw.uniform(20, 600))
    tuned = Job(**_over(version, STEPS[0], begun, took), state=JobState.FAILED if ill else JobState.SUCCEEDED)
    after = _over(version, STEPS[1], begun + took, took / 10)
    measured = Job(**after, after=tuned, state=JobState.CANCELLED if ill else JobState.SUCCEEDED)
    if ill:
        tuned.error_code, tuned.error_message = "training_diverged", "The loss was not a number in step 812."
        tuned.stage, tuned.progress = "fine-tune", draw.random()
    else:
        measured.metrics = version.metrics.get(JobKind.EVALUATE, {})
    return [tuned, measured]


def _over(version: Version, kind: JobKind, begun: datetime, took: timedelta) -> dict[str, Any]:
    """What all jobs have that are over."""
    return {
        "kind": kind,
        "version": version,
        "tenant_id": version.tenant_id,
        "params": {"settings": version.config.get("settings", {})},
        "attempt": 1,
        "progress": 1.0,
        "queued_at": begun,
        "started_at": begun,
        "finished_at": begun + took,
    }


def _events(jobs: Sequence[Job]) -> Iterator[JobEvent]:
    for job in jobs:
        yield JobEvent(job=job, kind=JobState.QUEUED)
        yield JobEvent(job=job, kind=JobState.RUNNING)
        for step in range(REPORTS):
            yield JobEvent(
                job=job, kind="metrics", data={"step": step, "total": REPORTS, "loss": 2.0 / (step + 1)}
            )
        yield JobEvent(job=job, kind=job.state, message=job.error_message)


def _days(versions: Sequence[Version], draw: random.Random) -> Iterator[UsageDay]:
    day = datetime.now(UTC).date()
    while versions:
        for version in versions:
            requests = draw.randrange(1, 500)
            assert version.hplm is not None
            yield UsageDay(
                tenant_id=version.hplm.tenant_id,
                model_name=version.hplm.name,
                day=day,
                requests=requests,
                inputs=2 * requests,
                tokens=40 * requests,
                failed=requests // 200,
            )
        day -= timedelta(days=1)
