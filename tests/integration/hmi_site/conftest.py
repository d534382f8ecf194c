"""A browser of the staff, and a web server that tests talk to as strangers would."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from redis import Redis

from hmi_site.launcher.web_server import choose_port
from inference.api.admission import close_gateway
from tenants.accounts.models import User
from tests.integration.serving_faults.servers import Web
from tests.integration.world import World, make_world


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests are about the whole site."""


@pytest.fixture
def served(transactional_db: None, upload_root: Path) -> World:
    """The small world, committed, so that another process sees it."""
    return make_world()


@pytest.fixture
def staff(
    client: Client, db: None, artifact_root: Path, upload_root: Path, redis_client: Redis
) -> Iterator[Client]:
    """Somebody who may do everything in the administration, signed in."""
    client.force_login(User.objects.create_superuser("boss"))
    yield client
    close_gateway()  # it must not outlive the Valkey that it reads from


@pytest.fixture
def web(
    served: World,
    service_env: dict[str, str],
    upload_root: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Web]:
    """A web server as the launcher starts it; a test may give it further settings,
    or an application of its own."""
    port = choose_port("127.0.0.1", 18_800)
    more = dict(getattr(request, "param", {}))
    application = more.pop("application", "")
    env = {**service_env, "HMI_UPLOAD_ROOT": str(upload_root), **more}
    with port.listener:
        web = Web(port, env, tmp_path / "web.log", application=application)
        web.start()
        yield web
        web.stop()
