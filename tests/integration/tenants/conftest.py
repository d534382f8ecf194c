"""What tests of checks share."""

from pathlib import Path
from uuid import UUID

import pytest
from pytest_django import Settings

from tests.integration.world import World, make_world
from versiontree.jobs.services import transitions


@pytest.fixture
def committed(transactional_db: None, upload_root: Path) -> World:
    """The small world, in transactions that really commit."""
    return make_world()


@pytest.fixture
def large(settings: Settings) -> None:
    """Nothing is small enough to be checked at once."""
    settings.HMI_CHECK_INLINE_BYTES = 0


@pytest.fixture
def nudged(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The ids of the jobs that were dispatched."""
    dispatched: list[UUID] = []
    monkeypatch.setattr(transitions, "dispatch", lambda _, job_id, **__: dispatched.append(UUID(job_id)))
    return dispatched
