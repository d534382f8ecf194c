"""Creates the history of a large installation: finished jobs, usage by day and model, and the request log."""

import random
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, cycle, islice
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.usage.models import LoggedRequest, RequestApi, UsageDay
from tenants.usage.services.usage import usage_sums_rebuild
from versiontree.jobs.models import Job, JobEvent, JobKind, JobState
from versiontree.tree.models import Version

BATCH_SIZE: Final = 2_000
STEPS: Final = (JobKind.FINE_TUNE, JobKind.EVALUATE)
METRICS_EVENTS: Final = 5
"""The metrics events of each job."""


@transaction.atomic
def jobs_create(*, versions: Sequence[Version], count: int) -> None:
    """Create `count` finished jobs, two for each version in turn; every tenth pair failed."""
    draw = random.Random(count)  # noqa: S311 - figures to look at
    pairs = (_steps(version, draw, failed=n % 10 == 9) for n, version in enumerate(cycle(versions)))
    jobs = list(islice(chain.from_iterable(pairs), count))
    Job.unscoped.bulk_create(jobs, batch_size=BATCH_SIZE)
    JobEvent.unscoped.bulk_create(_events(jobs), batch_size=BATCH_SIZE)


def usage_create(*, versions: Sequence[Version], count: int) -> None:
    """Create `count` rows of usage, one per model and day, back from today; existing days are kept."""
    draw = random.Random(count)  # noqa: S311 - figures to look at
    rows = islice(_days(versions, draw), count)
    while chunk := list(islice(rows, BATCH_SIZE)):
        UsageDay.unscoped.bulk_create(chunk, ignore_conflicts=True)
    tenants = {version.hplm.tenant_id for version in versions if version.hplm is not None}
    for tenant in Tenant.objects.filter(pk__in=tenants):
        usage_sums_rebuild(tenant=tenant)


def requests_create(*, versions: Sequence[Version], count: int) -> None:
    """Create `count` entries of the request log, of each version in turn; every twentieth failed."""
    first = timezone.now() - timedelta(seconds=count)
    rows = (_request(version, number, first) for number, version in enumerate(islice(cycle(versions), count)))
    LoggedRequest.unscoped.bulk_create(rows, batch_size=BATCH_SIZE)


def _request(version: Version, number: int, first: datetime) -> LoggedRequest:
    assert version.hplm is not None
    failed = number % 20 == 19
    return LoggedRequest(
        tenant_id=version.hplm.tenant_id,
        at=first + timedelta(seconds=number),
        request_id=uuid.uuid4().hex,
        api=RequestApi.INFER,
        model_name=version.hplm.name,
        version=version.number,
        status=429 if failed else 200,
        error_code="rate_limited" if failed else "",
        latency_ms=10.0 + number % 30,
        level="" if failed else "cascade",
        inputs=2,
        tokens=0 if failed else 40,
        details={} if failed else {"levels": {"table": 1, "full": 1}, "timings_ms": {"total": 9.0}},
    )


def _steps(version: Version, draw: random.Random, *, failed: bool) -> list[Job]:
    started = timezone.now() - timedelta(minutes=draw.uniform(10, 60 * 24 * 30))
    duration = timedelta(seconds=draw.uniform(20, 600))
    tuned = Job(
        **_finished(version, STEPS[0], started, duration),
        state=JobState.FAILED if failed else JobState.SUCCEEDED,
    )
    after = _finished(version, STEPS[1], started + duration, duration / 10)
    measured = Job(**after, after=tuned, state=JobState.CANCELLED if failed else JobState.SUCCEEDED)
    if failed:
        tuned.error_code, tuned.error_message = "training_diverged", "The loss was not a number in step 812."
        tuned.stage, tuned.progress = "fine-tune", draw.random()
    else:
        measured.metrics = version.metrics.get(JobKind.EVALUATE, {})
    return [tuned, measured]


def _finished(version: Version, kind: JobKind, started: datetime, duration: timedelta) -> dict[str, Any]:
    """The fields of a finished job."""
    return {
        "kind": kind,
        "version": version,
        "tenant_id": version.tenant_id,
        "params": {"settings": version.config.get("settings", {})},
        "attempt": 1,
        "progress": 1.0,
        "queued_at": started,
        "started_at": started,
        "finished_at": started + duration,
    }


def _events(jobs: Sequence[Job]) -> Iterator[JobEvent]:
    for job in jobs:
        yield JobEvent(job=job, kind=JobState.QUEUED)
        yield JobEvent(job=job, kind=JobState.RUNNING)
        for step in range(METRICS_EVENTS):
            yield JobEvent(
                job=job,
                kind="metrics",
                data={"step": step, "total": METRICS_EVENTS, "loss": 2.0 / (step + 1)},
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
