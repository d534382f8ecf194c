"""The world of the pages, without a browser."""

import copy
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.test import Client, TestCase, override_settings
from pytest_django import DjangoDbBlocker

from tenants.base.scope import platform_scope
from tenants.usage.models import UsageDay, UsageSum
from tests.e2e.world import World, world_build


class Around(TestCase):
    """A transaction in which services may ask for their own."""


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare and read rows of all tenants; the requests that they send see those of one."""


@pytest.fixture(scope="module")
def built(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, Path]]:
    """The world of a module's tests, built once in a transaction around theirs, and its files."""
    folder = tmp_path_factory.mktemp("world")
    roots = {"HMI_ARTIFACT_ROOT": folder / "artifacts", "HMI_UPLOAD_ROOT": folder / "uploads"}
    for root in roots.values():
        root.mkdir()
    with django_db_blocker.unblock():
        Around.setUpClass()
        with platform_scope(), override_settings(**roots):
            world = world_build()
        yield world, folder
        Around.tearDownClass()
        Around.doClassCleanups()


@pytest.fixture
def world(built: tuple[World, Path], db: None, artifact_root: Path, upload_root: Path) -> World:
    """A tenant with an owner, a developer and a viewer, a stranger, and a small version tree: the test's own
    to change, with files of its own."""
    there, folder = built
    for root in (artifact_root, upload_root):
        shutil.copytree(folder / root.name, root, dirs_exist_ok=True)
    today = datetime.now(UTC).date()  # midnight may have come since it was built
    for rows in (UsageDay, UsageSum):
        rows.unscoped.exclude(day=today).update(day=today)
    return copy.deepcopy(there)


@pytest.fixture
def owner(world: World, client: Client) -> Client:
    """A browser in which the owner is signed in."""
    client.force_login(world.owner)
    return client
