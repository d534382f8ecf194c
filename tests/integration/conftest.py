"""The small world, and what tests of the queue share."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from redis import Redis

from inference.api.rates import spending
from inference.artifact_check import run_request
from inference.queueing import token_buckets
from inference.queueing.connection import connect
from tenants.base.scope import tenant_scope
from tests.integration.world import World, make_world
from tests.services import OwnValkey
from tests.settings import home_base
from versiontree.transfer.archive import sandboxed_check


@pytest.fixture
def world(db: None, upload_root: Path) -> World:
    """Two tenants and their people, with an upload folder of this test's own."""
    return make_world()


@pytest.fixture
def in_acme_scope(request: pytest.FixtureRequest) -> Iterator[None]:
    """Show the rows of acme and the shared ones of the platform, as a request by acme does. The world is the
    one that the test uses: `world`, or `committed`."""
    world = request.getfixturevalue("committed" if "committed" in request.fixturenames else "world")
    with tenant_scope(world.tenant):
        yield


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """The queue's own kind of connection, to an emptied Valkey."""
    with connect(redis_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def patient_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits by the minute that wait for a Valkey which stalls: in the product nothing counts meanwhile."""
    monkeypatch.setattr(token_buckets, "PATIENCE_S", 30.0)
    monkeypatch.setattr(spending, "_local_buckets", None)


@pytest.fixture
def tried_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts are tried in this process: starting one takes seconds."""
    monkeypatch.setattr(sandboxed_check, "sandbox_response", lambda wanted: run_request(asdict(wanted)))


@pytest.fixture
def own_server() -> Iterator[OwnValkey]:
    """A running Valkey that the test may kill."""
    home = Path(tempfile.mkdtemp(prefix="hmi-valkey-", dir=home_base()))  # short, as sockets need
    server = OwnValkey(home, binary=django_settings.HMI_REDIS_BIN)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(home, ignore_errors=True)
