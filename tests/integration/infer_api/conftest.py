"""What the tests of the infer API share: hPLMs that are ready, keys, and a real inference worker."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from pytest_django import DjangoDbBlocker
from rest_framework.test import APIClient

from inference.api.client import close_gateway
from tenants.models import Tenant, User
from tenants.services.api_keys import api_key_create
from tenants.services.members import member_add
from tenants.services.tenants import tenant_create
from tests.integration.jobs.world import World, make_world
from tests.processes import InferenceWorker
from tests.unit.tiny import tiny_hplm, tiny_root

Ask = Callable[..., Any]


@dataclass(frozen=True)
class Served:
    """Two hPLMs of `acme`, one that is not ready, and a stranger with a key of their own."""

    world: World
    scratch: Path
    key: str
    manage_key: str
    stranger: User
    strangers_key: str


@pytest.fixture(scope="package")
def served(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    redis_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """Made once and committed, so that a worker process can serve it; what tests write is rolled back."""
    scratch = tmp_path_factory.mktemp("served")
    kept = django_settings.HMI_ARTIFACT_ROOT, django_settings.HMI_UPLOAD_ROOT
    django_settings.HMI_ARTIFACT_ROOT, django_settings.HMI_UPLOAD_ROOT = scratch / "a", scratch / "u"
    try:
        with django_db_blocker.unblock():
            yield _make_served(scratch)
            call_command("flush", interactive=False, verbosity=0)
    finally:
        close_gateway()
        django_settings.HMI_ARTIFACT_ROOT, django_settings.HMI_UPLOAD_ROOT = kept


def _make_served(scratch: Path) -> Served:
    world = make_world(scratch)
    root_version = world.ready_root(scratch / "root")
    root = tiny_root(scratch / "same")
    world.ready_hplm(root_version, tiny_hplm(root, "classification"), scratch, name="mood")
    world.ready_hplm(root_version, tiny_hplm(root, "tagging", seed=1), scratch, name="places")
    world.create_hplm(root_version, name="unborn")
    stranger = User.objects.create_user("stranger", password="stranger")
    other = tenant_create(slug="globex", name="Globex", owner=stranger)
    return Served(
        world=world,
        scratch=scratch,
        key=_key(world.tenant, "infer"),
        manage_key=_key(world.tenant, "manage"),
        stranger=stranger,
        strangers_key=_key(other, "infer"),
    )


def _key(tenant: Tenant, scope: str) -> str:
    return api_key_create(tenant=tenant, name=scope, scopes=[scope], created_by=None)[1]


@pytest.fixture
def viewer(db: None, served: Served) -> User:
    """A member of `acme` with the least rights."""
    user = User.objects.create_user("viewer", password="viewer")
    member_add(tenant=served.world.tenant, user=user, role="viewer")
    return user


@pytest.fixture(scope="package")
def running_worker(served: Served, redis_url: str) -> Iterator[InferenceWorker]:
    """One for all tests."""
    running = InferenceWorker(redis_url, served.scratch / "a")
    yield running
    running.terminate()


@pytest.fixture
def worker(running_worker: InferenceWorker) -> InferenceWorker:
    """The inference worker, signed on; who pauses it lets it go on."""
    running_worker.wait_until_ready()
    return running_worker


@pytest.fixture
def busy(worker: InferenceWorker) -> Iterator[InferenceWorker]:
    """The worker, paused; it goes on after the test at the latest."""
    worker.pause()
    yield worker
    worker.resume()


@pytest.fixture
def ask(db: None, served: Served) -> Ask:
    """Posts an infer request with the tenant's key, or with the one given."""

    def post(
        model: object = "acme/mood", inputs: object = ("a good stone",), *, key: str = "", **more: Any
    ) -> Any:
        client = APIClient(HTTP_AUTHORIZATION=f"Bearer {key or served.key}")
        return client.post("/api/v1/infer", {"model": model, "inputs": inputs, **more}, format="json")

    return post
