"""What the tests of jobs share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.integration.jobs.world import World, make_world
from tests.processes import CeleryWorker

StartWorker = Callable[..., CeleryWorker]


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Jobs run in Celery workers, which see the rows of all tenants."""


@pytest.fixture
def world(
    transactional_db: None,
    redis_client: redis.Redis,
    artifact_root: Path,
    upload_root: Path,
    tmp_path: Path,
) -> World:
    """A tenant with uploads and a published checkpoint, in a database that other processes can see."""
    return make_world(tmp_path)


@pytest.fixture
def start_worker(world: World, service_env: dict[str, str], tmp_path: Path) -> Iterator[StartWorker]:
    """Starts Celery workers that end with the test: ``start_worker(HMI_LOG_FORMAT="json")``."""
    workers: list[CeleryWorker] = []

    def start(**env: str) -> CeleryWorker:
        workers.append(CeleryWorker({**service_env, **env}, tmp_path))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()
