"""What the database tells of second factors, and what a secret key opens."""

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import caches
from django.test import Client
from pytest_django import Settings

from hmi_site.shared_cache import SharedCache
from tenants.base.encryption import ENCRYPTED_PREFIX
from tests.integration.tenants.accounts.signing_in import code_of, enter, signed_in
from tests.integration.tenants.accounts.test_second_factor import with_factor
from tests.integration.world import World

ANOTHER = "another key, as long as it has to be"


def factor(world: World, kind: Authenticator.Type) -> Authenticator:
    return Authenticator.objects.get(user=world.owner, type=kind)


def lets_in(secret: str) -> bool:
    client = Client()
    enter(client, "owner")
    client.post("/second-factor/authenticate/", {"code": code_of(secret, later=True)})
    return signed_in(client)


def test_a_copy_of_the_database_holds_no_secret(world: World) -> None:
    secret = with_factor(world.owner)
    app, codes = factor(world, Authenticator.Type.TOTP), factor(world, Authenticator.Type.RECOVERY_CODES)
    assert secret not in str(app.data)
    assert app.data["secret"].startswith(ENCRYPTED_PREFIX)
    assert codes.data["seed"].startswith(ENCRYPTED_PREFIX)
    assert lets_in(secret)


def test_the_key_before_still_opens_and_a_lost_one_is_said(world: World, settings: Settings) -> None:
    secret, before = with_factor(world.owner), settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = ANOTHER, [before]
    assert lets_in(secret)
    settings.SECRET_KEY_FALLBACKS = []
    client = Client()
    enter(client, "owner")
    page = client.post("/second-factor/authenticate/", {"code": code_of(secret, later=True)})
    assert page.status_code == 403
    assert "secret key of this installation has changed" in page.content.decode()


@pytest.mark.usefixtures("redis")
def test_processes_count_tries_of_codes_together_and_alone_while_valkey_is_away(settings: Settings) -> None:
    here = caches["default"]
    assert isinstance(here, SharedCache)
    there = SharedCache(settings.REDIS_URL, {"KEY_PREFIX": here.key_prefix})
    here.set("tries", [1.5, 2], 60)
    assert there.get("tries") == [1.5, 2]
    away = SharedCache("redis://127.0.0.1:1/0", {})
    assert away.get("tries", "none") == "none"
    assert away.add("tries", 1, 60)
    assert not away.add("tries", 1, 60)
    assert away.incr("tries") == 2
    away.delete("tries")
    assert away.get("tries") is None
    here.clear()
    assert there.get("tries") is None
