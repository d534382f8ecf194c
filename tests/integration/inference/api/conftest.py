"""What the tests of the infer API share: models that are ready, keys, and a real inference worker."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker
from redis import Redis
from rest_framework.test import APIClient

from inference.api.admission import close_gateway
from inference.cascade.profile import Candidate, CascadeProfile, LevelProfile
from inference.queueing import keys
from tenants.accounts.models import User
from tenants.accounts.services.members import member_add
from tenants.accounts.services.tenants import tenant_create
from tests.integration.inference.queueing.requests import depth
from tests.integration.inference.web_server import WebServer, committed, new_key, web_server
from tests.integration.jobs.world import World, make_world, ready_embeddings
from tests.processes import InferenceWorker, wait_until
from tests.unit.sentence_files import add_sentence_files
from tests.unit.tiny import tiny_hplm, tiny_root
from versiontree.tree.resolution import resolve_model

Ask = Callable[..., Any]
CASCADE = CascadeProfile(
    "classes",
    LevelProfile(metric=0.6, milliseconds=1.0, temperature=0.5),
    LevelProfile(metric=0.9, milliseconds=2.0, temperature=0.5),
    candidates=(
        Candidate(cutoff=0.0, slope=10.0, weight=1.0, metric=0.7, escalated=0.2, milliseconds=1.2),
        Candidate(cutoff=0.6, slope=10.0, weight=0.5, metric=0.8, escalated=0.5, milliseconds=1.5),
        Candidate(cutoff=0.99, slope=10.0, weight=0.8, metric=0.85, escalated=0.9, milliseconds=1.9),
    ),
    chosen=1,
)
"""Of the model `graded`."""
WEB_CAPACITY = 4


@dataclass(frozen=True)
class Served:
    """Four models of `acme`, one of which only gives embeddings: `vectors`. Their root was a folder of
    sentence-transformers. Of the others `graded` has a cascade of its own and a second version that is not
    promoted, one that is not ready, and a stranger with a key of their own."""

    world: World
    scratch: Path
    key: str
    manage_key: str
    stranger: User
    strangers_key: str


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare and read rows of all tenants; the requests that they send see those of one."""


@pytest.fixture(scope="package")
def served(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    redis_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """Made once and committed, so that a worker process can serve it; what tests write is rolled back."""
    with committed(django_db_blocker, tmp_path_factory.mktemp("served"), _make_served) as served:
        yield served


def _make_served(scratch: Path) -> Served:
    world = make_world(scratch)
    root_version = world.ready_root(scratch / "root", add_files=add_sentence_files)
    root = tiny_root(scratch / "same")
    ready_embeddings(root_version, world.tenant, scratch, name="vectors")
    world.ready_hplm(root_version, tiny_hplm(root, "classification"), scratch, name="mood")
    world.ready_hplm(root_version, tiny_hplm(root, "tagging", seed=1), scratch, name="places")
    graded = tiny_hplm(root, "classification", seed=2)
    first = world.ready_hplm(root_version, graded, scratch, name="graded", cascade=CASCADE)
    world.ready_update(first, tiny_hplm(root, "classification", seed=3), scratch)
    world.create_hplm(root_version, name="unborn")
    stranger = User.objects.create_user("stranger", password="stranger")
    other = tenant_create(slug="globex", name="Globex", owner=stranger)
    return Served(
        world=world,
        scratch=scratch,
        key=new_key(world.tenant, "infer"),
        manage_key=new_key(world.tenant, "manage"),
        stranger=stranger,
        strangers_key=new_key(other, "infer"),
    )


def root_of(served: Served) -> str:
    """The digest of the root that both models have."""
    return resolve_model(served.world.tenant, "mood").root_digest


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
def busy(
    worker: InferenceWorker, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InferenceWorker]:
    """The worker, as long as it computes something: it takes nothing, but its heart beats. It goes on after
    the test at the latest. Nobody in this process waits for it much longer than they said."""
    monkeypatch.setattr("inference.queueing.replies.GRACE_S", 0.2)
    with Redis.from_url(redis_url) as client:
        wait_until(lambda: depth(client) == 0, worker)
        worker.pause()
        client.persist(keys.worker(worker.name))
    yield worker
    worker.resume()


@pytest.fixture
def queue(redis_url: str) -> Iterator[Redis]:
    """What the worker and the API meet in."""
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def empty_queue(busy: InferenceWorker, redis_client: Redis) -> Redis:
    """Valkey, emptied: the worker, which is paused, has not signed on again."""
    close_gateway()
    return redis_client


@pytest.fixture(scope="module")
def server(served: Served, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A web server with a short queue, one for all tests of a module."""
    with web_server(
        redis_url, tmp_path_factory.mktemp("logs"), HMI_INFER_CAPACITY=str(WEB_CAPACITY)
    ) as running:
        yield running


@pytest.fixture
def ask(db: None, served: Served) -> Ask:
    """Posts an infer request with the tenant's key, or with the one given."""

    def post(
        model: object = "acme/mood", inputs: object = ("a good stone",), *, key: str = "", **more: Any
    ) -> Any:
        client = APIClient(HTTP_AUTHORIZATION=f"Bearer {key or served.key}")
        return client.post("/api/v1/infer", {"model": model, "inputs": inputs, **more}, format="json")

    return post
