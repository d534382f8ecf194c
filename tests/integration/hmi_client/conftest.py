"""A running product to speak to, and the command as a shell runs it."""

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from pytest_django.live_server_helper import LiveServer

from hmi_client import Client
from hmi_client.cli import main
from inference.api.admission import close_gateway
from tenants.accounts.models import Tenant
from tenants.accounts.services.api_keys import api_key_create
from tests.integration.hmi_client.scripted import Script, scripted
from tests.integration.jobs.world import World, make_world
from tests.processes import CeleryWorker, InferenceWorker
from versiontree.tree.models import Version


@dataclass(frozen=True)
class Product:
    """A site at ``url`` with a tenant, its key and a root to build on; jobs run and models answer."""

    url: str
    world: World
    root: Version
    key: str


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


Hmi = Callable[..., Ran]


def key_of(tenant: Tenant, *scopes: str) -> str:
    """A new key's plaintext."""
    return api_key_create(tenant=tenant, name="key", scopes=list(scopes), created_by=None)[1]


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare rows of all tenants; the client that they run sees those of one."""


@pytest.fixture
def site(
    live_server: LiveServer,
    redis_client: redis.Redis,
    artifact_root: Path,
    upload_root: Path,
    tmp_path: Path,
) -> Iterator[Product]:
    """The web server alone."""
    world = make_world(tmp_path / "world")
    root = world.ready_root(tmp_path / "scratch")
    yield Product(live_server.url, world, root, key_of(world.tenant, "infer", "manage"))
    close_gateway()  # it must not outlive the Valkey that it reads from


@pytest.fixture
def product(
    site: Product, service_env: dict[str, str], redis_url: str, artifact_root: Path, tmp_path: Path
) -> Iterator[Product]:
    """The web server, a worker of jobs, batches and files, and an inference worker."""
    inference = InferenceWorker(redis_url, artifact_root)
    jobs = CeleryWorker(service_env, tmp_path, queue="training,quick,long")
    inference.wait_until_ready()
    yield site
    jobs.end()
    inference.kill()


@pytest.fixture
def client(site: Product) -> Iterator[Client]:
    """A client with the tenant's key."""
    with Client(site.url, site.key) as client:
        yield client


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command keeps its profiles; nothing of the person's own environment is seen."""
    for name in ("HMI_URL", "HMI_API_KEY", "HMI_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "hmi"


@pytest.fixture
def hmi(config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hmi:
    """Runs the command, in a locale whose encoding is not that of stdin."""

    def run(*arguments: object, stdin: str | bytes = "") -> Ran:
        piped = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["hmi", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), encoding="latin-1"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ran(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def script() -> Iterator[Script]:
    """A server that answers what a test writes down for it."""
    with scripted() as script:
        yield script


@pytest.fixture
def server(script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Path) -> Script:
    """Such a server for the command, which runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HMI_URL", script.url)
    monkeypatch.setenv("HMI_API_KEY", "a.b")
    return script


@pytest.fixture
def logged_in(hmi: Hmi, site: Product) -> Hmi:
    """Runs the command, as somebody who logged in before."""
    ran = hmi("login", "--url", site.url, "--api-key", "-", stdin=site.key + "\n")
    assert ran.code == 0, ran.err
    return hmi
