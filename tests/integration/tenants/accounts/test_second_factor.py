"""Authenticator apps and recovery codes."""

import re

import pytest
from allauth.mfa.models import Authenticator
from django.core.mail import EmailMessage
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tenants.accounts.models import User
from tests.integration.tenants.accounts.signing_in import code_of, enter, signed_in
from tests.integration.world import PASSWORD, World


def set_up(client: Client) -> str:
    """Switch the second factor on, as the pages lead; the secret that the app holds."""
    again = client.get("/second-factor/totp/activate/")
    page = client.post(again["Location"], {"password": PASSWORD}, follow=True).content.decode()
    assert 'src="data:image/svg+xml;base64,' in page
    found = re.search(r"Secret: <code>(\w+)</code>", page)
    assert found
    answer = client.post("/second-factor/totp/activate/", {"code": code_of(found[1])})
    assert answer.status_code == 302
    return found[1]


def with_factor(user: User) -> str:
    """Somebody whose second factor is on; the secret."""
    client = Client()
    enter(client, user.username)
    return set_up(client)


def send(client: Client, code: str) -> bool:
    """Enter a code after the password; whether it let us in."""
    client.post("/second-factor/authenticate/", {"code": code})
    return signed_in(client)


def test_that_it_was_switched_off_is_told_by_mail(
    client: Client, world: World, mailoutbox: list[EmailMessage]
) -> None:
    enter(client, "owner")
    set_up(client)
    assert "badge dot success" in client.get("/second-factor/").content.decode()
    client.post("/second-factor/totp/deactivate/")
    assert "badge dot success" not in client.get("/second-factor/").content.decode()
    assert [message.to for message in mailoutbox] == [["owner@example.org"]]


def test_then_the_password_alone_does_not_let_in(client: Client, world: World) -> None:
    secret = with_factor(world.owner)
    assert enter(client, "owner")["Location"].startswith("/second-factor/authenticate/")
    assert not signed_in(client)
    assert client.get("/t/acme/").status_code == 302
    assert not send(client, "000000")
    assert send(client, code_of(secret, later=True))


def test_a_code_that_was_used_is_used_up(world: World) -> None:
    secret, code = with_factor(world.owner), ""
    for expected in (True, False):
        client = Client()
        enter(client, "owner")
        code = code or code_of(secret, later=True)
        assert send(client, code) is expected


def test_codes_cannot_be_tried_at_will(client: Client, world: World) -> None:
    secret = with_factor(world.owner)
    enter(client, "owner")
    assert not any(send(client, f"{n:06}") for n in range(6))
    assert not send(client, code_of(secret, later=True))


def test_an_administrator_removes_the_factor_of_a_lost_telephone_and_sees_no_secret(
    client: Client, world: World
) -> None:
    secret = with_factor(world.owner)
    client.force_login(world.staff)
    row = Authenticator.objects.get(user=world.owner, type=Authenticator.Type.TOTP)
    page = client.get(reverse("admin:mfa_authenticator_change", args=[row.pk])).content.decode()
    assert "owner" in page
    assert secret not in page
    client.post(reverse("admin:mfa_authenticator_delete", args=[row.pk]), {"post": "yes"})
    browser = Client()
    enter(browser, "owner")
    assert signed_in(browser)


@pytest.fixture
def required(settings: Settings) -> None:
    settings.HMI_STAFF_TOTP = True


@pytest.mark.usefixtures("required")
def test_where_it_is_required_staff_set_it_up_before_anything_else(client: Client, world: World) -> None:
    enter(client, "staff")
    of_the_administration = ("/admin/", "/admin/mfa/authenticator/", "/admin/account/emailaddress/add/")
    for page in (*of_the_administration, "/admin/serving/", "/"):
        assert client.get(page)["Location"] == "/second-factor/totp/activate/", page
    refused = client.get("/api/v1/platform/jobs")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    set_up(client)
    assert client.get("/admin/").status_code == 200
    assert client.get("/api/v1/platform/jobs").status_code == 200


@pytest.mark.usefixtures("required")
def test_where_it_is_required_staff_cannot_switch_it_off(client: Client, world: World) -> None:
    enter(client, "staff")
    set_up(client)
    page = client.post("/second-factor/totp/deactivate/").content.decode()
    assert "It cannot be disabled" in page
    assert Authenticator.objects.filter(user=world.staff, type=Authenticator.Type.TOTP).exists()


@pytest.mark.usefixtures("required")
def test_of_tenants_people_it_is_not_required(client: Client, world: World) -> None:
    enter(client, "owner")
    assert client.get("/t/acme/").status_code == 200
