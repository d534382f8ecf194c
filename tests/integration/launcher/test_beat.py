"""The clock and the worker of short tasks, as the launcher starts them."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone
from pytest_django import Settings

from hmi_site.launcher import children
from tests.integration.jobs.world import make_world, state_of
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.processes import wait_until
from tests.services import running
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.services.lifecycle import job_claim


@pytest.fixture
def abandoned(
    transactional_db: None,
    redis_client: redis.Redis,
    artifact_root: Path,
    upload_root: Path,
    tmp_path: Path,
) -> Job:
    """A job whose worker was never heard of again."""
    job = jobs_in_order(make_world(tmp_path).register_root())[0]
    assert job_claim(job_id=job.pk, worker="lost", lease_s=60) is not None
    Job.unscoped.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    return job


@pytest.fixture
def clock(abandoned: Job, service_env: dict[str, str], settings: Settings, tmp_path: Path) -> Iterator[None]:
    """Beat and the worker of the queue `short`, nothing else."""
    settings.HMI_LOG_ROOT = tmp_path
    with ExitStack() as both:
        for child, ready in (children.short_worker(), children.beat()):
            child.env = {**child.env, **service_env}
            both.enter_context(running(child, ready))
        yield


def test_the_clock_has_jobs_of_dead_workers_queued_again(abandoned: Job, clock: None) -> None:
    wait_until(lambda: state_of(abandoned) == "queued")
    assert JobEvent.unscoped.filter(job=abandoned, kind="queued").exists()
