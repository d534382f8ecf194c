"""A real queue, and a tiny world to serve."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.integration.queueing.conftest import own_server, redis
from tests.integration.worker.desk import Desk
from tests.integration.worker.process import WorkerProcess
from tests.unit.tiny import TinyWorld, tiny_world

__all__ = ["own_server", "redis"]


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Six hPLMs of two tenants in an artifact root, published."""
    return tiny_world(tmp_path / "artifacts")


@pytest.fixture
def desk(redis: Redis, redis_url: str, world: TinyWorld) -> Iterator[Desk]:
    """A worker in this process, stepped by the test, and a place to ask it things."""
    desk = Desk(redis_url, world)
    yield desk
    desk.close()


@pytest.fixture
def start_worker(redis_url: str, world: TinyWorld) -> Iterator[type[WorkerProcess]]:
    """Start workers as processes: ``start_worker(HMI_BATCH_ROWS="1")``. None outlives the test."""
    started: list[WorkerProcess] = []

    def start(url: str = redis_url, **env: str) -> WorkerProcess:
        started.append(WorkerProcess(url, world.artifact_root, **env))
        return started[-1]

    yield start  # type: ignore[misc]
    for worker in started:
        worker.kill()
