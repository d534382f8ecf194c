"""What the Celery worker of the queue of uploads does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings
from redis import Redis

from tenants.datasets.models import UploadCheck
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.uploads import upload_receive
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, corpus_file, world_build
from tests.processes import CeleryWorker, wait_until
from versiontree.tree.selectors.coverage import coverage_request, coverages_of

pytestmark = pytest.mark.slow


@pytest.fixture
def world(
    transactional_db: None, redis_client: Redis, artifact_root: Path, upload_root: Path, tmp_path: Path
) -> World:
    """A root and a domain with real tables, committed."""
    return world_build(TinyFiles(tmp_path / "checkpoint"))


@pytest.fixture
def worker(world: World, service_env: dict[str, str], tmp_path: Path) -> Iterator[CeleryWorker]:
    """The worker."""
    folders = {name: str(getattr(django_settings, name)) for name in ("HMI_ARTIFACT_ROOT", "HMI_UPLOAD_ROOT")}
    running = CeleryWorker({**service_env, **folders}, tmp_path, queue="long")
    yield running
    running.end()


def test_the_worker_stores_large_uploads_and_measures_what_tables_hold_of_them(
    world: World, worker: CeleryWorker, settings: Settings
) -> None:
    a_large_upload_is_checked_and_stored(world, worker, settings)
    what_tables_hold_of_an_upload_is_measured(world, worker)


def a_large_upload_is_checked_and_stored(world: World, worker: CeleryWorker, settings: Settings) -> None:
    settings.HMI_CHECK_INLINE_BYTES = 0
    text = corpus_file(5)
    size = len(text.getvalue())
    upload = upload_receive(tenant=world.tenant, filename="a.txt", size=size, stream=text, actor=world.owner)
    check = check_create(
        tenant=world.tenant,
        kind="corpus",
        name="June",
        files={"file": upload},
        actor=world.owner,
        store=True,
    )
    assert check.state == "waiting"
    wait_until(lambda: UploadCheck.unscoped.get(pk=check.pk).state == "stored", worker)


def what_tables_hold_of_an_upload_is_measured(world: World, worker: CeleryWorker) -> None:
    coverage_request(world.dataset)
    wait_until(lambda: not coverages_of(world.tenant, world.dataset)[1], worker)
    assert all(
        one.fragments and not one.error_message for one in coverages_of(world.tenant, world.dataset)[0]
    )
