"""The world of the pages, without a browser."""

from pathlib import Path

import pytest
from django.test import Client

from tests.e2e.world import World, world_build


@pytest.fixture
def world(db: None, artifact_root: Path, upload_root: Path) -> World:
    """A tenant with an owner, a developer and a viewer, a stranger, and a small version tree."""
    return world_build()


@pytest.fixture
def owner(world: World, client: Client) -> Client:
    """A browser in which the owner is signed in."""
    client.force_login(world.owner)
    return client
