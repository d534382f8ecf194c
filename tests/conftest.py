"""What every test may ask for. Servers start when the first test that needs one runs, and end with pytest."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import redis
from django.conf import settings as django_settings
from pytest_django import DjangoDbBlocker, Settings

from tenants.base import scope
from tests.database_template import copy_migrated_database
from tests.gpus import why_no_gpu
from tests.services import environment_of_services, running, throwaway_postgres, throwaway_valkey

FOLDERS = ("unit", "integration", "field", "e2e", "architecture")
SLOW_FOLDERS = (
    "e2e",
    "integration/contract",
    "integration/demo",
    "integration/fuzz",
    "integration/hmi_client",
    "integration/inference",
    "integration/jobs",
    "integration/launcher",
    "integration/serving_faults",
    "integration/serving_logs",
    "integration/versiontree/transfer",
)
"""They start processes of the product, send thousands of requests, or train."""

if why_no_gpu():
    # Triton reads it when a kernel is defined, which is whenever a test first imports the module.
    os.environ.setdefault("TRITON_INTERPRET", "1")

# How long an example takes says more about what else runs on the machine than about the code.
# A run draws other examples than the one before, but in CI: what few of them miss, later ones may find.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=40)
hypothesis.settings.load_profile("untimed")


# What tests import lasts as long as the process. To look through it for garbage takes most of a second: each
# time while it is imported, and whenever a test or the product asks for a collection.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but not among what is there."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let Python end in order: some libraries complain of what is left."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by its folder, as in `pytest -m unit`, and as slow where all of its folder are. Files
    with slow tests come first: what the processes of a run do last is short, so that none waits for others.
    """
    root = Path(__file__).parent
    for item in items:
        file = item.path.relative_to(root) if item.path.is_relative_to(root) else Path()
        folder = file.parts[0] if file.parts else ""
        if folder in FOLDERS:
            item.add_marker(getattr(pytest.mark, folder))
        if any(file.is_relative_to(slow) for slow in SLOW_FOLDERS):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none."""
    if item.get_closest_marker("gpu") and (reason := why_no_gpu()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def hmi_home() -> Path:
    """The throwaway HMI_HOME of this run."""
    return Path(django_settings.HMI_HOME)


@pytest.fixture(scope="session")
def postgres(
    hmi_home: Path, pytestconfig: pytest.Config, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """A running PostgreSQL, the one that `settings.DATABASES` names, with the migrated test database."""
    server = throwaway_postgres(hmi_home, binaries=django_settings.HMI_POSTGRES_BIN)
    assert pytestconfig.cache is not None
    with django_db_blocker.unblock():
        copy_migrated_database(server, pytestconfig.cache.mkdir("postgres"))
    with running(server.prepare(), server.ready):
        yield


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """pytest-django uses the database that is there, and applies what the template lacks."""
    return True


@pytest.fixture
def in_platform_scope(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Show all tenants' rows in all threads, as in a command or a Celery worker. Requests that the test sends
    enter scopes of their own. A test without a scope sees no tenant's rows."""
    monkeypatch.setattr(scope, "_process_scope", scope.PLATFORM_SCOPE)
    with scope.platform_scope():
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: None) -> None:
    """pytest-django asks for this before it makes the test database: the moment to have a server."""


@pytest.fixture(scope="session")
def redis_url(hmi_home: Path) -> Iterator[str]:
    """The URL of a running Valkey, the one that `settings.REDIS_URL` names."""
    server = throwaway_valkey(hmi_home, binary=django_settings.HMI_REDIS_BIN)
    with running(server.prepare(), server.ready):
        yield django_settings.REDIS_URL


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of an emptied Valkey."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def artifact_root(tmp_path: Path, settings: Settings) -> Path:
    """An empty artifact root of this test's own."""
    settings.HMI_ARTIFACT_ROOT = tmp_path / "artifacts"
    settings.HMI_ARTIFACT_ROOT.mkdir()
    return Path(settings.HMI_ARTIFACT_ROOT)


@pytest.fixture
def upload_root(tmp_path: Path, settings: Settings) -> Path:
    """An empty upload root of this test's own."""
    settings.HMI_UPLOAD_ROOT = tmp_path / "uploads"
    settings.HMI_UPLOAD_ROOT.mkdir()
    return Path(settings.HMI_UPLOAD_ROOT)


@pytest.fixture
def service_env(redis_url: str, db: None) -> dict[str, str]:
    """Environment variables that point a subprocess of a test at this run's database, Valkey and folders."""
    return environment_of_services(redis_url)
