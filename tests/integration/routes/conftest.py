"""One world for the walks of a file, with something at every address."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker
from redis import Redis

from inference.api.admission import close_gateway
from tenants.base.scope import platform_scope
from tests.e2e.world import World
from tests.integration.frontend.conftest import built as built
from tests.integration.routes.places import in_the_tenant, on_the_platform

Places = dict[str, object]


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare rows of all tenants for the requests that they send."""


@pytest.fixture(scope="module")
def found(built: tuple[World, Path], django_db_blocker: DjangoDbBlocker) -> tuple[Places, Places]:
    """What stands for parameters in the tenant, and on the platform; made once."""
    world, folder = built
    roots = {"HMI_ARTIFACT_ROOT": folder / "artifacts", "HMI_UPLOAD_ROOT": folder / "uploads"}
    with django_db_blocker.unblock(), platform_scope(), override_settings(**roots):
        values = in_the_tenant(world)
        return values, values | on_the_platform(world)


@pytest.fixture
def world(
    built: tuple[World, Path],
    found: tuple[Places, Places],
    db: None,
    redis_client: Redis,
    artifact_root: Path,
    upload_root: Path,
) -> Iterator[World]:
    """The people and the things there, with files of the test's own."""
    there, folder = built
    for root in (artifact_root, upload_root):
        shutil.copytree(folder / root.name, root, dirs_exist_ok=True)
    yield there
    close_gateway()
