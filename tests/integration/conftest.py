"""Fixtures of all tests that need the database."""

from pathlib import Path

import pytest

from tests.integration.world import World, make_world


@pytest.fixture
def world(db: None, upload_root: Path) -> World:
    """Two tenants and their people, with an upload folder of this test's own."""
    return make_world()
