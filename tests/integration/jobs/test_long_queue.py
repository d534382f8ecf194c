"""What the Celery worker of the queue `long` does."""

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import connection
from pytest_django import Settings
from redis import Redis

from hmi_site.launcher.children import LONG_CONCURRENCY
from inference.batches.models import Batch
from inference.batches.services.batches import batch_create
from tenants.datasets.models import UploadCheck
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.files import file_create
from tenants.datasets.services.uploads import upload_receive
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, corpus_file, world_build
from tests.processes import CeleryWorker, wait_until
from versiontree.tree.selectors.coverage import coverage_request, coverages_of


@pytest.fixture
def world(
    transactional_db: None, redis_client: Redis, artifact_root: Path, upload_root: Path, tmp_path: Path
) -> World:
    """A root and a domain with real tables, committed."""
    return world_build(TinyFiles(tmp_path / "checkpoint"))


@pytest.fixture
def start_worker(
    world: World, service_env: dict[str, str], tmp_path: Path
) -> Iterator[Callable[[], CeleryWorker]]:
    """Starts the worker."""
    folders = {name: str(getattr(django_settings, name)) for name in ("HMI_ARTIFACT_ROOT", "HMI_UPLOAD_ROOT")}
    env = {**service_env, **folders}
    with ExitStack() as running:

        def start() -> CeleryWorker:
            worker = CeleryWorker(env, tmp_path, queue="long", concurrency=LONG_CONCURRENCY)
            running.callback(worker.end)
            return worker

        yield start


def test_an_upload_is_checked_stored_and_measured_while_batches_of_hours_run(
    world: World, start_worker: Callable[[], CeleryWorker], settings: Settings
) -> None:
    lines = io.BytesIO(b"a text")
    file = file_create(tenant=world.tenant, purpose="batch", filename="b", stream=lines, actor=world.owner)
    for _ in range(LONG_CONCURRENCY - 1):
        batch_create(tenant=world.tenant, file=file, model="triage:1", actor=world.owner)
    with batches_locked():
        worker = start_worker()
        a_large_upload_is_checked_and_stored(world, worker, settings)
        what_tables_hold_of_an_upload_is_measured(world, worker)
        assert not Batch.unscoped.exclude(state="waiting").exists()


@contextmanager
def batches_locked() -> Iterator[None]:
    """Lock the rows of all batches, so that the processes that begin them wait."""
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT id FROM batches_batch FOR UPDATE")
            assert cursor.fetchall()
        yield
    finally:
        other.close()


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
