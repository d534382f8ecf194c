"""A web server as the launcher starts it, and rows and artifacts committed for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from django.core.management import call_command
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from hmi_site.launcher import children
from hmi_site.launcher.web_server import choose_port
from inference.api.admission import close_gateway
from tenants.accounts.models import Tenant
from tenants.accounts.services.api_keys import api_key_create
from tenants.base.scope import platform_scope
from tests.services import environment_of_services, running

Made = TypeVar("Made")
FIRST_PORT = 18_700


@dataclass(frozen=True)
class WebServer:
    """A web server, its address and what it has written."""

    url: str
    log: Path


@contextmanager
def committed(blocker: DjangoDbBlocker, scratch: Path, make: Callable[[Path], Made]) -> Iterator[Made]:
    """What ``make`` puts into the database and, below ``scratch``, into the artifact and the upload root. All
    rows are removed at the end."""
    try:
        roots = {"HMI_ARTIFACT_ROOT": scratch / "a", "HMI_UPLOAD_ROOT": scratch / "u"}
        with override_settings(**roots), blocker.unblock():
            with platform_scope():
                made = make(scratch)
            yield made
            call_command("flush", interactive=False, verbosity=0)
    finally:
        close_gateway()


@contextmanager
def web_server(redis_url: str, logs: Path, **env: str) -> Iterator[WebServer]:
    """A web server as the launcher starts it, with few threads."""
    with override_settings(HMI_WEB_THREADS=6, HMI_LOG_ROOT=logs):
        port = choose_port("127.0.0.1", FIRST_PORT)
        child, ready = children.web(port)
        child.env = {**child.env, **environment_of_services(redis_url), **env}
        with port.listener, running(child, ready):
            yield WebServer(f"http://{port.address}:{port.number}", child.log)


def new_key(tenant: Tenant, *scopes: str, **limits: Any) -> str:
    """A key of the tenant's that may do so much."""
    return api_key_create(tenant=tenant, name="key", scopes=list(scopes), created_by=None, **limits)[1]
