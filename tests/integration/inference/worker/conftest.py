"""A real queue, and a tiny world to serve."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from inference.text.tasks import TASKS
from tests.integration.inference.worker.desk import Desk
from tests.processes import InferenceWorker
from tests.unit.tiny_world import TinyWorld, tiny_world


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    """Six models of two tenants and every task in an artifact root, published; to be left as it is."""
    return tiny_world(tmp_path_factory.mktemp("world") / "artifacts", tasks=TASKS)


@pytest.fixture
def world(built: TinyWorld, tmp_path: Path) -> TinyWorld:
    """The same, with files of the test's own to change."""
    artifact_root = shutil.copytree(built.artifact_root, tmp_path / "artifacts")
    return replace(built, artifact_root=artifact_root)


@pytest.fixture
def desk(redis: Redis, redis_url: str, world: TinyWorld) -> Iterator[Desk]:
    """A worker in this process, stepped by the test, and a place to ask it things."""
    desk = Desk(redis_url, world)
    yield desk
    desk.close()


@pytest.fixture
def start_worker(redis_url: str, world: TinyWorld) -> Iterator[Callable[..., InferenceWorker]]:
    """Start workers with short heartbeats: ``start_worker(HMI_BATCH_ROWS="1")``. None outlives the test."""
    started: list[InferenceWorker] = []

    def start(url: str = redis_url, **env: str) -> InferenceWorker:
        usual = {"HMI_WORKER_LIFE_S": "0.6", "HMI_HOME": str(world.artifact_root.parent)}
        started.append(InferenceWorker(url, world.artifact_root, **(usual | env)))
        return started[-1]

    yield start
    for worker in started:
        worker.kill()
