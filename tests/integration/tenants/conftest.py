"""What tests of checks share."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from tenants.base.hooks import check_requested
from tests.integration.world import World, make_world


@pytest.fixture
def committed(transactional_db: None, upload_root: Path) -> World:
    """The small world, in transactions that really commit."""
    return make_world()


@pytest.fixture
def large(settings: Settings) -> None:
    """Nothing is small enough to be checked at once."""
    settings.HMI_CHECK_INLINE_BYTES = 0


@pytest.fixture
def nudged() -> Any:
    """The ids of checks that a worker was asked to take."""
    asked: list[UUID] = []

    def note(check_id: UUID, **_: Any) -> None:
        asked.append(check_id)

    receivers, check_requested.receivers = check_requested.receivers, []
    check_requested.connect(note)
    yield asked
    check_requested.receivers = receivers
