"""A real queue, and a tiny world to serve."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from inference.text.tasks import TASKS
from tests.integration.inference.worker.desk import Desk
from tests.processes import InferenceWorker, starting_workers
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
    """See `starting_workers`."""
    home = str(world.artifact_root.parent)
    with starting_workers(redis_url, world.artifact_root, HMI_HOME=home) as start:
        yield start
