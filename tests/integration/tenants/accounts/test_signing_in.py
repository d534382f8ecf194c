"""One way in, for tenants and for the administration."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from pytest_django import Settings

from tenants.accounts.models import User
from tests.integration.tenants.accounts.signing_in import enter, signed_in
from tests.integration.world import PASSWORD, World


@pytest.mark.parametrize("login", ["owner", "OwNeR", "OWNER@example.org", " owner "])
def test_people_sign_in_with_their_name_or_address(client: Client, world: World, login: str) -> None:
    assert enter(client, login).status_code == 302
    assert signed_in(client)


def test_a_wrong_password_and_an_unknown_name_are_refused_in_the_same_words(
    client: Client, world: World
) -> None:
    for login in ("owner", "nobody"):
        page = enter(client, login, "wrong").content.decode()
        assert "Wrong user name or password." in page
    assert not signed_in(client)


def test_signing_in_leads_on_within_the_site_only(world: World) -> None:
    form = {"login": "owner", "password": PASSWORD}
    for wanted, led in (("/t/acme/jobs/", "/t/acme/jobs/"), ("https://evil.example/", "/")):
        answer = Client().post("/login/", form | {"next": wanted})
        assert answer["Location"] == led


def test_the_administration_is_entered_by_the_same_page(client: Client, world: World) -> None:
    asked = client.get("/admin/", follow=True)
    assert asked.redirect_chain[-1][0].startswith("/login/?next=")
    sent = client.post("/admin/login/", {"username": "staff", "password": PASSWORD})
    assert sent["Location"].startswith("/login/")
    assert not signed_in(client)
    enter(client, "staff")
    assert client.get("/admin/").status_code == 200


NEW = {
    "username": "newcomer",
    "email": "new@example.org",
    "password1": "a long enough one",
    "password2": "a long enough one",
}


def test_nobody_makes_an_account_unless_the_installation_says_so(client: Client, world: World) -> None:
    assert "Ask an owner of your tenant to invite you" in client.get("/signup/").content.decode()
    client.post("/signup/", NEW)
    assert not User.objects.filter(username="newcomer").exists()
    assert "Sign up" not in client.get("/login/").content.decode()


def test_where_anybody_may_a_new_account_belongs_to_no_tenant(
    client: Client, world: World, settings: Settings
) -> None:
    settings.HMI_SIGN_UP = True
    assert "Sign up" in client.get("/login/").content.decode()
    page = client.post("/signup/", NEW, follow=True)
    assert "not a member of any tenant" in page.content.decode()


def test_a_user_name_that_differs_in_letter_case_is_taken(client: Client, world: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user("OWNER")
    client.force_login(world.staff)
    form = {"username": "Owner", "password1": "quince and medlar", "password2": "quince and medlar"}
    page = client.post("/admin/accounts/user/add/", form | {"usable_password": "true"}).content.decode()
    assert "already exists" in page
    assert User.objects.filter(username__iexact="owner").count() == 1
