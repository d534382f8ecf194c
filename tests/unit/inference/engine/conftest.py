"""One tiny world for all tests of the engine: making it takes a second."""

from collections.abc import Iterator

import pytest

from tests.unit.inference.engine.worlds import EngineWorld


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> EngineWorld:
    return EngineWorld(tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(shared_world: EngineWorld) -> Iterator[EngineWorld]:
    """The world, with every model as it was made."""
    shared_world.replaced.clear()
    yield shared_world
    shared_world.replaced.clear()
