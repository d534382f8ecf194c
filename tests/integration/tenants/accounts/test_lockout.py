"""Who tries too many passwords waits."""

from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from allauth.account.signals import password_reset
from axes.models import AccessAttempt
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from tenants.accounts.models import User
from tests.integration.tenants.accounts.signing_in import HERE, enter, signed_in
from tests.integration.world import World

ELSEWHERE = "198.51.100.20"


@pytest.fixture(autouse=True)
def three_tries(settings: Settings) -> None:
    settings.AXES_FAILURE_LIMIT = settings.HMI_LOCKOUT_FAILURES = 3


def fail(*logins: str, address: str = HERE) -> list[int]:
    """A wrong password for each; the statuses of the answers."""
    return [enter(Client(), login, "wrong", address=address).status_code for login in logins]


def test_wrong_passwords_lock_an_account_for_their_address(client: Client, world: World) -> None:
    assert fail("owner", "owner", "owner") == [200, 200, 429]
    answer = enter(client, "owner")
    assert (answer.status_code, answer["Retry-After"]) == (429, "900")
    assert not signed_in(client)


def test_wrong_passwords_from_many_addresses_lock_an_account_for_all(world: World) -> None:
    tries = [fail("owner", address=f"198.51.100.{n // 2}")[0] for n in range(30)]
    assert tries == [200] * 29 + [429]
    answer = enter(Client(), "owner", address="203.0.113.99")
    assert (answer.status_code, answer["Retry-After"]) == (429, "900")
    assert enter(Client(), "viewer", address="198.51.100.3").status_code == 302
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert enter(Client(), "owner", address="203.0.113.99").status_code == 302


def test_a_new_password_unlocks_an_account_for_all_addresses(world: World) -> None:
    for n in range(15):
        fail("owner", "owner", address=f"198.51.100.{n}")
    assert enter(Client(), "owner").status_code == 429
    password_reset.send(sender=User, request=None, user=world.owner)
    assert enter(Client(), "owner").status_code == 302


def test_a_lock_out_spares_other_accounts_and_addresses(client: Client, world: World) -> None:
    fail("owner", "owner", "owner")
    assert enter(client, "viewer").status_code == 302
    assert enter(Client(), "owner", address=ELSEWHERE).status_code == 302


def test_tries_with_other_letter_case_count_for_the_same_account(client: Client, world: World) -> None:
    assert fail("owner", "Owner@Example.org", "OWNER") == [200, 200, 429]


def test_tries_at_another_account_do_not_count(world: World) -> None:
    assert world.owner.pk < world.viewer.pk
    EmailAddress.objects.create(user=world.owner, email=world.viewer.email, primary=True)
    User.objects.filter(pk=world.owner.pk).update(email=world.viewer.email)
    fail(world.viewer.email, world.viewer.email)
    assert enter(Client(), "owner").status_code == 302  # which begins their own count anew
    assert fail(world.viewer.email) == [429]


def test_all_ipv6_addresses_of_a_client_count_as_one(world: World) -> None:
    tries = [fail("owner", address=f"2001:db8::{n}")[0] for n in range(3)]
    assert tries == [200, 200, 429]
    assert fail("owner", address="2001:db8:0:1::1") == [200]
    assert [fail("viewer", address=f"::ffff:203.0.113.{n}")[0] for n in range(3)] == [200, 200, 200]


def test_tries_at_an_unknown_name_are_limited_too(client: Client, world: World) -> None:
    assert fail(*["x" * 4000] * 3) == [200, 200, 429]


def test_the_right_password_resets_the_count(world: World) -> None:
    fail("owner", "owner")
    assert enter(Client(), "owner@example.org").status_code == 302
    assert fail("owner", "owner") == [200, 200]


def test_tries_at_the_admin_login_count_too(client: Client, world: World) -> None:
    for _ in range(5):
        client.post("/admin/login/", {"username": "staff", "password": "wrong"})
    assert not AccessAttempt.objects.exists()  # nothing is tried there
    fail("staff", "staff", "staff")
    assert enter(client, "staff").status_code == 429


def test_an_administrator_unlocks_an_account(client: Client, world: World) -> None:
    fail("owner", "owner", "owner")
    client.force_login(world.staff)
    row = AccessAttempt.objects.get()
    assert client.get(reverse("admin:axes_accessattempt_changelist")).status_code == 200
    client.post(reverse("admin:axes_accessattempt_delete", args=[row.pk]), {"post": "yes"})
    assert enter(Client(), "owner").status_code == 302


def test_no_password_or_token_is_kept(client: Client, world: World) -> None:
    form = {"login": "owner", "password": "wrong", "csrfmiddlewaretoken": "secret-of-the-form"}
    client.post("/login/", form)
    kept = AccessAttempt.objects.get()
    assert "wrong" not in kept.post_data
    assert "secret-of-the-form" not in kept.post_data


def test_tries_at_many_names_from_one_address_are_limited(world: World) -> None:
    statuses = fail(*(f"name{n}" for n in range(31)))
    assert (statuses[0], statuses[-1]) == (200, 429)
    answer = enter(Client(), "owner")
    assert (answer.status_code, answer["Retry-After"]) == (429, "60")


def through_proxies(client: Client, hops: str) -> int:
    """The status for a wrong password that came with this `X-Forwarded-For`."""
    form = {"login": "owner", "password": "wrong"}
    headers = {"X-Forwarded-For": hops}
    return client.post("/login/", form, headers=headers, REMOTE_ADDR="127.0.0.1").status_code


def test_a_forwarded_address_is_ignored_without_trusted_proxies(client: Client, world: World) -> None:
    assert [through_proxies(client, f"203.0.113.{n}") for n in range(3)] == [200, 200, 429]


def test_a_trusted_proxy_names_the_client(client: Client, world: World, settings: Settings) -> None:
    settings.HMI_TRUSTED_PROXIES = 1
    assert [through_proxies(client, f"made-up, 203.0.113.{n}") for n in range(3)] == [200, 200, 200]
    assert [through_proxies(client, f"{n}, 203.0.113.9") for n in range(3)] == [200, 200, 429]
