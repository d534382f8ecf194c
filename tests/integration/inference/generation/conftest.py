"""Generative models that are ready, a web server, and what plays their worker."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django import DjangoDbBlocker
from rest_framework.test import APIClient

from tests.integration.inference.generation.scripted_worker import ScriptedWorker
from tests.integration.inference.web_server import WebServer, committed, new_key, web_server
from tests.integration.jobs.generative_world import home_of, ready_writer
from tests.integration.jobs.world import make_world
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.processes import InferenceWorker
from tests.unit.tiny import tiny_hplm, tiny_root
from tests.unit.tiny_decoder import byte_tokenizer
from versiontree.tree.resolution import resolve_model

QUESTION = [{"role": "user", "content": "Hello"}]
NARROW = 50


@dataclass(frozen=True)
class Served:
    """The models `writer` (generative) and `mood` (classification) of acme, and keys of acme and globex. They
    may infer, but manage_key, and full_key does both. The narrow keys may have NARROW tokens a minute."""

    acme: TenantFixture
    artifact_root: Path
    root: str
    key: str
    manage_key: str
    narrow_key: str
    other_narrow_key: str
    full_key: str
    strangers_key: str


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests read rows of all tenants; the requests that they send see those of one."""


@pytest.fixture(scope="package")
def served(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    redis_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """Made once and committed, so that a web server can serve it."""
    with committed(django_db_blocker, tmp_path_factory.mktemp("served"), _make_served) as served:
        yield served


def _make_served(scratch: Path) -> Served:
    world, globex = make_world(scratch / "world"), tree_factory.create_tenant("globex")
    ready_writer(home_of(world), scratch)
    mood = tiny_hplm(tiny_root(scratch / "same"), "classification")
    world.ready_hplm(world.ready_root(scratch / "tiny"), mood, scratch, name="mood")
    return Served(
        home_of(world),
        scratch / "a",
        resolve_model(world.tenant, "writer").root_digest,
        new_key(world.tenant, "infer"),
        new_key(world.tenant, "manage"),
        new_key(world.tenant, "infer", tokens_per_minute=NARROW),
        new_key(world.tenant, "infer", tokens_per_minute=NARROW),
        new_key(world.tenant, "infer", "manage"),
        new_key(globex.tenant, "infer"),
    )


@pytest.fixture
def worker(served: Served, redis_url: str) -> Iterator[ScriptedWorker]:
    """What takes the requests for `writer`."""
    with ScriptedWorker(redis_url, served.root) as worker:
        yield worker


@pytest.fixture(scope="module")
def running_worker(served: Served, redis_url: str) -> Iterator[InferenceWorker]:
    """A real inference worker, one for all tests of a module."""
    running = InferenceWorker(redis_url, served.artifact_root)
    yield running
    running.terminate()


@pytest.fixture
def real_worker(running_worker: InferenceWorker) -> InferenceWorker:
    """The inference worker, signed on."""
    return running_worker.wait_until_ready()


def tokens_of(text: str) -> list[int]:
    """The tokens of a text."""
    ids: list[int] = byte_tokenizer().encode(text).ids
    return ids


@pytest.fixture(scope="module")
def server(served: Served, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A web server, one for all tests of a module."""
    with web_server(redis_url, tmp_path_factory.mktemp("logs"), HMI_INFER_CAPACITY="40") as running:
        yield running


@pytest.fixture
def web(server: WebServer, served: Served) -> Iterator[httpx.Client]:
    """Sends requests with acme's key to a web server as the launcher starts it."""
    headers = {"Authorization": f"Bearer {served.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def chat(web: httpx.Client) -> Callable[..., httpx.Response]:
    """Asks for the next message of a chat."""

    def post(**body: Any) -> httpx.Response:
        return web.post("/v1/chat/completions", json={"model": "acme/writer", "messages": QUESTION, **body})

    return post


@pytest.fixture
def program(db: None, served: Served) -> APIClient:
    """A program of acme's that asks within this process."""
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
