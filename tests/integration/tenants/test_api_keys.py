"""The life of an API key, through the door where it is used, and that of its successor."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.accounts.authentication import api_key_from
from tenants.accounts.models import ApiKey
from tenants.accounts.selectors import api_keys_active, api_keys_ended
from tenants.accounts.services.api_keys import (
    api_key_create,
    api_key_revoke,
    api_key_rotate,
    api_key_touch,
)
from tenants.base.errors import ErrorCode
from tenants.base.scope import platform_scope
from tenants.usage.models import Quota
from tests.integration.tenants.content import audit_of
from tests.integration.world import World
from tests.unit.tenants.files import refused

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def test_a_key_is_stored_as_a_hash_only(world: World) -> None:
    key, plaintext = world.key()
    row = ApiKey.unscoped.filter(pk=key.pk).values().get()
    assert plaintext.startswith(key.prefix)
    assert plaintext not in str(row)
    assert plaintext.partition(".")[2] not in str(row)
    event = audit_of(world.tenant).filter(verb="api_key.create").get()
    assert plaintext not in str(event.detail)


def test_a_key_in_either_header_reads_its_own_tenant(world: World) -> None:
    _, plaintext = world.key()
    for header, value in (("HTTP_AUTHORIZATION", f"bearer {plaintext}"), ("HTTP_X_API_KEY", plaintext)):
        client = APIClient()
        client.credentials(**{header: value})
        assert client.get("/api/v1/datasets").status_code == 200, header
        assert client.get("/api/v1/tenants/acme/datasets").status_code == 200, header
        assert client.get("/api/v1/tenants").json()["results"][0]["slug"] == "acme", header


def test_a_key_does_not_read_another_tenant(world: World) -> None:
    client = world.client(key=world.key()[1])
    for slug in ("globex", "nowhere"):
        assert client.get(f"/api/v1/tenants/{slug}/datasets").status_code == 404
        assert client.get(f"/api/v1/datasets?tenant={slug}").status_code == 404


def test_a_malformed_key_is_refused(world: World) -> None:
    for text in ("", "abcdefgh." + "x" * 32, "\0" * 41, "ä" * 41, "a" * 100_000, "abcdefgh" + "." * 33):
        assert api_key_from(text) is None


def test_unknown_revoked_and_expired_keys_get_the_same_error(world: World) -> None:
    soon = timezone.now() + timedelta(hours=1)
    expired, expired_text = api_key_create(
        tenant=world.tenant, name="k", scopes=["manage"], created_by=None, expires_at=soon
    )
    assert world.client(key=expired_text).get("/api/v1/datasets").status_code == 200
    ApiKey.unscoped.filter(pk=expired.pk).update(expiry_date=timezone.now() - timedelta(seconds=1))
    revoked, revoked_text = world.key()
    assert api_key_revoke(api_key=revoked, actor=world.owner)
    assert not api_key_revoke(api_key=revoked, actor=world.owner)
    wrong = world.key()[1][:-1] + "?"
    answers = [world.client(key=text).get("/api/v1/datasets") for text in (expired_text, revoked_text, wrong)]
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["error"]["code"] == "unauthenticated"


def test_a_prefix_with_the_secret_of_another_key_is_refused(world: World) -> None:
    one, two = world.key()[1], world.key(tenant=world.other)[1]
    assert api_key_from(one[:9] + two[9:]) is None


def test_a_key_needs_the_scope(world: World) -> None:
    answer = world.client(key=world.key("infer")[1]).get("/api/v1/datasets")
    assert answer.status_code == 403
    assert answer.json()["error"]["details"] == {"needs": "manage", "scopes": ["infer"]}
    assert world.client(key=world.key("manage")[1]).get("/api/v1/datasets").status_code == 200


def test_a_key_needs_known_scopes_and_an_expiry_in_the_future_with_a_time_zone(world: World) -> None:
    make = partial(api_key_create, tenant=world.tenant, name="k", created_by=None)
    refused(ErrorCode.MISSING_FIELD, lambda: make(scopes=[]))
    refused(ErrorCode.INVALID_FIELD, lambda: make(scopes=["root"]))
    refused(ErrorCode.INVALID_FIELD, lambda: make(scopes="infer"))
    for moment in (datetime(2020, 1, 1, tzinfo=UTC), datetime(2999, 1, 1)):  # noqa: DTZ001 - that is the point
        error = refused(ErrorCode.INVALID_FIELD, partial(make, scopes=["infer"], expires_at=moment))
        assert error.param == "expires_at"
    with platform_scope():
        assert not ApiKey.unscoped.exists()
    assert world.key("manage", "infer", "manage")[0].scopes == ["infer", "manage"]


def test_the_last_use_is_written_once_a_minute(world: World, django_assert_num_queries: Any) -> None:
    key, plaintext = world.key()
    world.client(key=plaintext).get("/api/v1/datasets")
    used = ApiKey.unscoped.get(pk=key.pk)
    first = used.last_used_at
    assert first is not None
    with django_assert_num_queries(0):
        api_key_touch(api_key=used)
    world.client(key=plaintext).get("/api/v1/datasets")
    assert ApiKey.unscoped.get(pk=key.pk).last_used_at == first
    ApiKey.unscoped.filter(pk=key.pk).update(last_used_at=first - timedelta(minutes=2))
    api_key_touch(api_key=ApiKey.unscoped.get(pk=key.pk))
    last = ApiKey.unscoped.get(pk=key.pk).last_used_at
    assert last is not None
    assert last > first - timedelta(minutes=1)


def test_a_key_is_shown_once_by_the_api_and_refused_after_its_revocation(world: World) -> None:
    asked = {"name": "ci", "scopes": ["infer"]}
    address = "/api/v1/tenants/acme/api-keys"
    made = world.client(world.owner).post(address, asked)
    assert made.status_code == 201
    shown = made.json()
    assert api_key_from(shown["key"]) is not None
    seen = world.client(world.developer).get(address)
    assert seen.json()["results"][0]["prefix"] == shown["prefix"]
    assert "key" not in seen.json()["results"][0]
    assert "hashed" not in seen.content.decode()
    one = f"{address}/{shown['prefix']}"
    assert world.client(world.owner).delete(one).status_code == 204
    assert api_key_from(shown["key"]) is None
    assert world.client(world.owner).get(one).json()["revoked"] is True


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
