"""What is counted of a tenant's traffic goes when the tenant wants it to, however late it arrives."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone
from redis import Redis

from inference.queueing import keys
from inference.queueing.misses import KEPT, LIFE_S, MissCounter
from tenants.accounts.models import Tenant
from tests.integration.world import World
from workers.tasks import publish_manifest

TABLE = "ab" * 32


@pytest.fixture(autouse=True)
def own_artifacts(artifact_root: Path) -> Path:
    """Where the manifest goes."""
    return artifact_root


@pytest.fixture
def counted(world: World, redis: Redis) -> Redis:
    """Fragments of two tenants that share, and one that nobody knows any more."""
    Tenant.objects.create(slug="globex-two", name="Globex")
    for tenant in ("acme", "globex-two", "gone"):
        miss(redis, tenant)
    return redis


def miss(redis: Redis, tenant: str) -> None:
    counter = MissCounter(redis)
    counter.add(TABLE, tenant, 3, np.array((1, 2, 3), dtype=">i4").tobytes())
    counter.flush()


def tenants_with_counts(redis: Redis) -> set[str]:
    found: Any = redis.keys(keys.misses("*", "*"))
    return {name.decode().rsplit(":", 1)[1] for name in found}


def turn(client: Client, world: World, **fields: str) -> None:
    """Send the settings page as the owner does."""
    client.force_login(world.owner)
    assert client.post("/t/acme/settings/", fields).status_code == 302


def test_the_counts_of_a_tenant_that_stops_sharing_are_deleted(
    counted: Redis, world: World, client: Client
) -> None:
    publish_manifest()
    assert tenants_with_counts(counted) == {"acme", "globex-two"}  # a tenant that is gone has none
    turn(client, world)
    publish_manifest()
    assert tenants_with_counts(counted) == {"globex-two"}
    assert counted.smembers(keys.missing_tenants(TABLE)) == {b"globex-two"}


def test_so_is_what_a_worker_adds_before_it_hears_of_it(counted: Redis, world: World, client: Client) -> None:
    turn(client, world)
    publish_manifest()
    miss(counted, "acme")
    publish_manifest()
    assert "acme" not in tenants_with_counts(counted)


def test_turning_it_off_and_on_again_deletes_what_was_there(
    counted: Redis, world: World, client: Client
) -> None:
    turn(client, world)
    turn(client, world, shares_fragment_counts="on")
    publish_manifest()
    assert "acme" not in tenants_with_counts(counted)
    Tenant.objects.filter(slug="acme").update(stopped_sharing_at=timezone.now() - timedelta(hours=1))
    miss(counted, "acme")
    publish_manifest()
    assert "acme" in tenants_with_counts(counted)


def test_the_page_says_how_much_is_kept_for_how_long(world: World, client: Client) -> None:
    client.force_login(world.owner)
    shown = client.get("/t/acme/settings/").content.decode()
    assert f"up to {KEPT:,}" in shown
    assert f"after {LIFE_S // 86_400} days" in shown
    assert "only fragments that several tenants missed" in shown
    assert "your counts are deleted" in shown
