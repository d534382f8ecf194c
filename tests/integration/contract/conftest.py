"""A tenant with something of everything, asked through the door that the web server has, in this process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from pytest_django import Settings
from redis import Redis

from inference.api.admission import close_gateway
from tenants.accounts.services.api_keys import api_key_create
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, world_build
from tests.integration.contract.probing import Caller
from tests.integration.jobs.generative_world import ready_writer
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.processes import InferenceWorker
from versiontree.tree.serving_manifest import manifest_publish

A_TOKEN = "a" * 32
"""Forms of people bear one, the same as their cookie."""


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare rows of all tenants for the requests that they send."""


@pytest.fixture
def files(tmp_path: Path) -> TinyFiles:
    """Models that answer."""
    return TinyFiles(tmp_path / "checkpoint")


@pytest.fixture
def world(
    db: None,
    tried_here: None,
    redis_client: Redis,
    redis_url: str,
    artifact_root: Path,
    upload_root: Path,
    files: TinyFiles,
    tmp_path: Path,
    settings: Settings,
) -> Iterator[World]:
    """Models answer; how often somebody asks is not limited."""
    settings.HMI_RATE_MANAGE = settings.HMI_RATE_REQUESTS = 10_000_000
    made = world_build(files)
    people = (made.owner, made.developer, made.viewer)
    ready_writer(TenantFixture(made.tenant, *people, made.corpus, made.dataset), tmp_path)
    manifest_publish()
    worker = InferenceWorker(redis_url, artifact_root)
    worker.wait_until_ready()
    yield made
    close_gateway()
    worker.kill()


@pytest.fixture
def door(world: World) -> Iterator[Any]:
    """The application as web servers call it, but that it keeps the test's connection, in its transaction."""
    application = get_wsgi_application()
    for moment in (request_started, request_finished):
        moment.disconnect(close_old_connections)
    yield application
    for moment in (request_started, request_finished):
        moment.connect(close_old_connections)


@pytest.fixture
def program(world: World) -> Caller:
    """A key that may do all that keys may."""
    row, key = api_key_create(
        tenant=world.tenant, name="program", scopes=["infer", "manage"], created_by=world.owner
    )
    return Caller(row, {"Authorization": f"Bearer {key}"})


@pytest.fixture
def person(world: World) -> Caller:
    """The owner of the tenant, who is an administrator, too."""
    world.owner.is_staff = world.owner.is_superuser = True
    world.owner.save(update_fields=["is_staff", "is_superuser"])
    browser = Client()
    browser.force_login(world.owner)
    cookies = {name: cookie.value for name, cookie in browser.cookies.items()}
    cookies[django_settings.CSRF_COOKIE_NAME] = A_TOKEN
    return Caller(world.owner, {"X-CSRFToken": A_TOKEN}, cookies)
