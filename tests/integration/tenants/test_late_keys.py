"""How long the infer API goes on answering a key that is not good any more."""

import pickle
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from tenants.accounts.models import ApiKey
from tenants.accounts.services.api_keys import api_key_revoke
from tenants.accounts.services.tenants import tenant_resume, tenant_suspend
from tenants.base.ttl_cache import process_cache
from tests.integration.world import World
from tests.processes import wait_until

pytestmark = pytest.mark.usefixtures("in_acme_scope")

KNOWN, REFUSED, SUSPENDED = 404, 401, 403
"""What the infer API says of a model that is not there: to a good key, a bad one, a suspended tenant's."""


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    process_cache().clear()
    yield
    process_cache().clear()


@pytest.fixture
def for_a_minute(settings: Settings) -> None:
    settings.HMI_KEY_CACHE_S = 60.0


@pytest.fixture
def for_a_moment(settings: Settings) -> None:
    settings.HMI_KEY_CACHE_S = 0.2


def asked(client: APIClient) -> int:
    answer: Any = client.post("/api/v1/infer", {"model": "nobody", "inputs": ["a text"]})
    return int(answer.status_code)


def test_a_revoked_key_and_a_suspended_tenant_are_refused_once_the_time_is_over(
    world: World, for_a_moment: None
) -> None:
    key, plaintext = world.key()
    client = world.client(key=plaintext)
    assert asked(client) == KNOWN
    tenant_suspend(tenant=world.tenant, actor=world.staff)
    wait_until(lambda: asked(client) == SUSPENDED)
    tenant_resume(tenant=world.tenant, actor=world.staff)
    wait_until(lambda: asked(client) == KNOWN)
    api_key_revoke(api_key=key, actor=world.owner)
    wait_until(lambda: asked(client) == REFUSED)


def test_until_then_only_the_infer_api_goes_on(world: World, for_a_minute: None) -> None:
    key, plaintext = world.key()
    client = world.client(key=plaintext)
    assert asked(client) == KNOWN
    tenant_suspend(tenant=world.tenant, actor=world.staff)
    assert (asked(client), client.get("/api/v1/datasets").status_code) == (KNOWN, SUSPENDED)
    api_key_revoke(api_key=key, actor=world.owner)
    assert (asked(client), client.get("/api/v1/datasets").status_code) == (KNOWN, REFUSED)


def test_a_time_of_nothing_refuses_at_once(world: World) -> None:
    key, plaintext = world.key()
    client = world.client(key=plaintext)
    assert asked(client) == KNOWN
    api_key_revoke(api_key=key, actor=world.owner)
    assert asked(client) == REFUSED


def test_a_key_expires_when_it_was_to(world: World, for_a_minute: None, settings: Settings) -> None:
    key, plaintext = world.key()
    soon = timezone.now() + timedelta(seconds=0.3)
    ApiKey.unscoped.filter(pk=key.pk).update(expiry_date=soon)
    client = world.client(key=plaintext)
    wait_until(lambda: asked(client) == REFUSED)
    assert timezone.now() > soon


def test_whoever_knows_half_of_a_remembered_key_is_refused(world: World, for_a_minute: None) -> None:
    plaintext, other = world.key()[1], world.key(tenant=world.other)[1]
    assert asked(world.client(key=plaintext)) == KNOWN
    assert asked(world.client(key=plaintext[:9] + other[9:])) == REFUSED
    assert asked(world.client(key=plaintext[:-1] + "?")) == REFUSED


def test_a_key_that_was_refused_is_asked_for_again(world: World, for_a_minute: None) -> None:
    key, plaintext = world.key()
    ApiKey.unscoped.filter(pk=key.pk).update(hashed_key="sha512$$of another")
    assert asked(world.client(key=plaintext)) == REFUSED
    ApiKey.unscoped.filter(pk=key.pk).update(hashed_key=key.hashed_key)
    assert asked(world.client(key=plaintext)) == KNOWN


def test_no_key_is_remembered_as_such(world: World, for_a_minute: None) -> None:
    plaintext = world.key()[1]
    assert asked(world.client(key=plaintext)) == KNOWN
    kept = pickle.dumps([*vars(process_cache())["_entries"].items()])
    assert plaintext[:8].encode() in kept
    assert plaintext[9:].encode() not in kept


def test_a_remembered_key_is_looked_up_and_its_use_noted_once(world: World, for_a_minute: None) -> None:
    key, plaintext = world.key()
    client = world.client(key=plaintext)
    assert asked(client) == KNOWN
    used = ApiKey.unscoped.get(pk=key.pk).last_used_at
    assert used is not None
    ApiKey.unscoped.filter(pk=key.pk).update(last_used_at=None)
    with CaptureQueriesContext(connection) as queries:
        assert asked(client) == KNOWN
    assert not any("accounts_apikey" in query["sql"] for query in queries)
    assert ApiKey.unscoped.get(pk=key.pk).last_used_at is None
