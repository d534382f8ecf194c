"""Keys that follow each other, through the door where they are used."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tenants.accounts.models import ApiKey
from tenants.accounts.selectors import api_keys_active, api_keys_ended
from tenants.accounts.services.api_keys import api_key_create, api_key_revoke, api_key_rotate
from tenants.base.errors import ErrorCode
from tenants.usage.models import Quota
from tests.integration.tenants.content import audit_of
from tests.integration.world import World
from tests.unit.tenants.files import refused

pytestmark = pytest.mark.usefixtures("in_acme_scope")

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def rotated(world: World, key: ApiKey, overlap: timedelta = DAY) -> tuple[ApiKey, str]:
    return api_key_rotate(api_key=key, overlap=overlap, actor=world.owner)


def works(world: World, plaintext: str) -> bool:
    return int(world.client(key=plaintext).get("/api/v1/tenants").status_code) == 200


def pass_(key: ApiKey, time: timedelta) -> None:
    """As if so much time had passed for this key."""
    row = ApiKey.unscoped.get(pk=key.pk)
    if row.expiry_date is not None:
        ApiKey.unscoped.filter(pk=key.pk).update(expiry_date=row.expiry_date - time)


def test_both_keys_work_until_the_overlap_ends(world: World) -> None:
    old, plaintext = world.key("infer")
    successor, following = rotated(world, old, HOUR)
    assert works(world, plaintext)
    assert works(world, following)
    assert (successor.scopes, successor.name, successor.replaces) == (old.scopes, old.name, old)
    pass_(old, HOUR)
    assert not works(world, plaintext)
    assert works(world, following)
    event = audit_of(world.tenant).filter(verb="api_key.rotate").get()
    assert (event.subject, event.detail) == (old.prefix, {"successor": successor.prefix, "overlap_s": 3600})


def test_a_key_rotated_without_overlap_ends_at_once(world: World) -> None:
    old, plaintext = world.key()
    _, following = rotated(world, old, timedelta(0))
    assert not works(world, plaintext)
    assert works(world, following)
    assert ApiKey.unscoped.get(pk=old.pk).revoked_at is not None


def test_an_overlap_never_prolongs_a_key_and_the_successor_lives_as_long(world: World) -> None:
    soon = timezone.now() + HOUR
    old, _ = api_key_create(tenant=world.tenant, name="k", scopes=["infer"], created_by=None, expires_at=soon)
    successor, _ = rotated(world, old, DAY)
    assert ApiKey.unscoped.get(pk=old.pk).expiry_date == soon
    assert successor.expiry_date is not None
    assert abs(successor.expiry_date - soon) < timedelta(minutes=1)


def test_only_an_active_key_is_rotated_and_only_once(world: World) -> None:
    first, revoked, expired = world.key()[0], world.key()[0], world.key()[0]
    successor, _ = rotated(world, first)
    assert successor.prefix in refused(ErrorCode.CONFLICT, lambda: rotated(world, first)).message
    api_key_revoke(api_key=revoked, actor=None)
    ApiKey.unscoped.filter(pk=expired.pk).update(expiry_date=timezone.now() - HOUR)
    for key, word in ((revoked, "revoked"), (expired, "expired")):
        assert word in refused(ErrorCode.CONFLICT, lambda: rotated(world, key)).message  # noqa: B023
    for overlap in (timedelta(days=8), timedelta(seconds=-1)):
        refused(ErrorCode.INVALID_FIELD, lambda: rotated(world, successor, overlap))  # noqa: B023


def test_the_quota_limits_active_keys(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(max_api_keys=2)
    first, second = world.key()[0], world.key()[0]
    assert refused(ErrorCode.QUOTA_EXCEEDED, world.key).details == {
        "quota": "API keys",
        "limit": 2,
        "used": 2,
        "asked": 1,
    }
    refused(ErrorCode.QUOTA_EXCEEDED, lambda: rotated(world, first))
    assert ApiKey.unscoped.get(pk=first.pk).expiry_date is None
    rotated(world, first, timedelta(0))  # which makes room
    api_key_revoke(api_key=second, actor=None)
    world.key()


def test_an_ended_key_is_listed_for_a_while(world: World) -> None:
    working, revoked, expired, long_ago = (world.key()[0] for _ in range(4))
    now = timezone.now()
    for key in (revoked, long_ago):
        api_key_revoke(api_key=key, actor=None)
    ApiKey.unscoped.filter(pk=long_ago.pk).update(revoked_at=now - 31 * DAY)
    ApiKey.unscoped.filter(pk=expired.pk).update(expiry_date=now - 29 * DAY)
    assert {key.pk for key in api_keys_active(world.tenant)} == {working.pk}
    assert {key.pk for key in api_keys_ended(world.tenant, now - 30 * DAY)} == {revoked.pk, expired.pk}


def test_the_api_rotates_a_key_once(world: World) -> None:
    old, _ = world.key()
    address = f"/api/v1/tenants/acme/api-keys/{old.prefix}/rotate"
    owner = world.client(world.owner)
    assert owner.post(address, {"overlap_s": 10**9}).json()["error"]["param"] == "overlap_s"
    made: Any = owner.post(address, {"overlap_s": 60})
    assert made.status_code == 201
    assert works(world, made.json()["key"])
    shown = owner.get(f"/api/v1/tenants/acme/api-keys/{old.prefix}").json()
    assert (made.json()["replaces"], shown["replaced_by"]) == (old.prefix, made.json()["prefix"])
    assert shown["expires_at"] is not None
    assert owner.post(address).json()["error"]["code"] == "conflict"
