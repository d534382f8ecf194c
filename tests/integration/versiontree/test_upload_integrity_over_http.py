"""Uploads to the web server as the launcher starts it: two writers at one file, and a disk that is full."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings as django_settings

from hmi_site.launcher.web_server import choose_port
from tenants.accounts.services.api_keys import api_key_create
from tenants.datasets.models import File
from tests.integration.serving_faults.servers import Web
from tests.integration.tenants.tus import PIECE
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.services import private_mounts, start
from versiontree.tree.models import Version

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("in_platform_scope"),
]

DISK = 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"'
MEBIBYTE = 1024**2
LINE = b'"' + b"x" * (MEBIBYTE - 3) + b'"\n'


class SmallDisk(Web):
    """A web server whose folder of uploads has four megabytes."""

    def start(self) -> None:
        """Returns once it answers."""
        self._child, ready = self.prepared()
        mounted = [*private_mounts(), DISK, str(django_settings.HMI_UPLOAD_ROOT)]
        self._child.command = [*mounted, *self._child.command]
        start(self._child, ready)


@pytest.fixture
def web(
    request: pytest.FixtureRequest, service_env: dict[str, str], upload_root: Path, tmp_path: Path
) -> Iterator[Web]:
    """The web server, of the class that the test asks for."""
    kind: type[Web] = getattr(request, "param", Web)
    port = choose_port("127.0.0.1", 18_640)
    environment = {**service_env, "HMI_UPLOAD_ROOT": str(upload_root)}
    with port.listener:
        web = kind(port, environment, tmp_path / "web.log")
        web.start()
        yield web
        web.stop()


@pytest.fixture
def key(upload_root: Path, root: Version, acme: TenantFixture) -> str:
    """Of a tenant with a model that answers batches."""
    tree_factory.ready_hplm(root, "spam", acme)
    return api_key_create(tenant=acme.tenant, name="k", scopes=["infer", "manage"], created_by=acme.owner)[1]


@pytest.fixture
def wire(web: Web, key: str) -> Iterator[httpx.Client]:
    """A client of the tenant's."""
    headers = {"X-Api-Key": key, "Tus-Resumable": "1.0.0"}
    with httpx.Client(base_url=f"{web.url}/api/v1/", headers=headers, trust_env=False, timeout=60) as client:
        yield client


def upload(wire: httpx.Client, size: int) -> str:
    made = wire.post("uploads", headers={"Upload-Length": str(size), "Upload-Metadata": "filename YQ=="})
    assert made.status_code == 201, made.text
    return made.headers["Location"].rpartition("/")[2]


def patch(wire: httpx.Client, key: str, content: bytes, offset: int = 0) -> httpx.Response:
    headers = {"Upload-Offset": str(offset), "Content-Type": PIECE}
    return wire.patch(f"uploads/{key}", content=content, headers=headers)


def offset_of(wire: httpx.Client, key: str) -> int:
    return int(wire.head(f"uploads/{key}").headers["Upload-Offset"])


def batch(wire: httpx.Client, key: str) -> httpx.Response:
    return wire.post("batches", json={"model": "spam", "upload": key})


@pytest.mark.parametrize("web", [SmallDisk], indirect=True)
def test_full_disk_is_reported_and_leaves_no_file(web: Web, wire: httpx.Client) -> None:
    large = upload(wire, 5 * MEBIBYTE)
    full = patch(wire, large, LINE * 5)
    assert (full.status_code, full.json()["error"]["code"]) == (422, "out_of_disk")
    assert offset_of(wire, large) == 3 * MEBIBYTE, "what fitted is gone on from, and some space is left"
    assert wire.delete(f"uploads/{large}").status_code == 204

    key = upload(wire, 3 * MEBIBYTE)
    assert patch(wire, key, LINE * 3).status_code == 204
    no_room_for_both = batch(wire, key)
    assert (no_room_for_both.status_code, no_room_for_both.json()["error"]["code"]) == (422, "out_of_disk")
    assert not File.unscoped.exists()
    assert wire.delete(f"uploads/{key}").status_code == 204

    small = upload(wire, MEBIBYTE)
    assert patch(wire, small, LINE).status_code == 204
    assert batch(wire, small).status_code == 201, "there is room again"
