"""The way of somebody who is invited, from the link into the tenant."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core.mail import EmailMessage
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tenants.accounts.models import Invitation, InvitationState, User
from tenants.accounts.selectors import membership_of
from tenants.accounts.services.invitations import invitation_create, invitation_withdraw
from tests.integration.tenants.accounts.signing_in import enter
from tests.integration.world import World

NEW = {"username": "newcomer", "password1": "a long enough one", "password2": "a long enough one"}


@pytest.fixture(autouse=True)
def confirmed(world: World) -> EmailAddress:
    """The stranger has confirmed the address of their account."""
    return EmailAddress.objects.create(
        user=world.stranger, email="stranger@example.org", verified=True, primary=True
    )


def link_for(world: World, email: str, role: str = "developer") -> str:
    _, token = invitation_create(tenant=world.tenant, email=email, role=role, actor=world.owner)
    return f"/invitations/{token}/"


def opened(client: Client, link: str) -> str:
    """The page that the link leads to."""
    answer: Any = client.get(link, follow=True)
    assert answer.redirect_chain == [("/invitation/", 302)]
    return str(answer.content.decode())


def test_whoever_has_an_account_signs_in_and_joins_by_a_button(client: Client, world: World) -> None:
    link = link_for(world, "stranger@example.org")
    assert "/login/?next=/invitation/" in opened(client, link)
    assert client.post("/invitation/")["Location"] == "/login/?next=/invitation/"
    enter(client, "stranger")
    assert "Join Acme" in client.get("/invitation/").content.decode()
    assert membership_of(world.stranger, world.tenant) is None  # looking changes nothing
    page: Any = client.post("/invitation/", follow=True)
    assert page.redirect_chain[-1][0] == "/t/acme/"
    assert "You joined Acme as developer." in page.content.decode()
    again: Any = client.get(link, follow=True)
    assert again.redirect_chain[-1][0] == "/t/acme/"


def test_a_link_that_is_over_says_why_and_opens_no_sign_up(client: Client, world: World) -> None:
    def shown(link: str) -> tuple[int, str]:
        answer: Any = client.get(link, follow=True)
        assert "Invitation required" in client.get("/signup/").content.decode()
        client.post("/signup/", NEW | {"email": "new@example.org"})
        return answer.status_code, answer.content.decode()

    link = link_for(world, "new@example.org")
    Invitation.unscoped.update(expires_at=timezone.now() - timedelta(hours=1))
    status, page = shown(link)
    assert (status, "expired" in page) == (410, True)
    link = link_for(world, "new@example.org")
    waiting = Invitation.unscoped.get(state=InvitationState.WAITING)
    invitation_withdraw(invitation=waiting, actor=world.owner)
    status, page = shown(link)
    assert (status, "withdrawn" in page) == (410, True)
    status, page = shown(link[:-5] + "/")
    assert (status, "Invitation not found" in page) == (404, True)
    assert not User.objects.filter(username="newcomer").exists()


def test_an_invitation_that_ends_while_the_form_is_filled_in_makes_no_account(
    client: Client, world: World
) -> None:
    opened(client, link_for(world, "new@example.org"))
    client.get("/signup/")
    Invitation.unscoped.update(expires_at=timezone.now())
    client.post("/signup/", NEW)
    assert not User.objects.filter(username="newcomer").exists()


@pytest.mark.parametrize("email", ["new@example.org", "stranger@example.org"])
def test_whoever_invites_learns_nothing_of_accounts(world: World, email: str) -> None:
    client = Client()
    client.force_login(world.owner)
    answer: Any = client.post("/t/acme/members/invite/", {"email": email, "role": "viewer"})
    page = answer.content.decode()
    assert f"{email} was invited" in page
    assert "We sent the link by e-mail." in page
    anonymous = opened(Client(), answer.context["link"].removeprefix("http://testserver"))
    assert "Sign up" in anonymous
    assert "Sign in" in anonymous


@pytest.mark.parametrize("email", ["new@example.org", "stranger@example.org"])
def test_whoever_opens_a_link_learns_nothing_of_accounts_either(
    client: Client, world: World, email: str, mailoutbox: list[EmailMessage]
) -> None:
    """An owner has the links to any address. Another address than the invited one is not taken."""
    opened(client, link_for(world, email))
    page: Any = client.post("/signup/", NEW | {"email": "other@example.org"}, follow=True)
    assert page.redirect_chain[-1][0] == "/t/acme/"
    assert [message.to for message in mailoutbox] == [[email]]
    assert email in client.get(reverse("account_email")).content.decode()
    person = User.objects.get(username="newcomer")
    assert membership_of(person, world.tenant) is not None
    assert not EmailAddress.objects.get(user=person).verified
    before = Client()
    enter(before, "stranger@example.org")
    assert before.session["_auth_user_id"] == str(world.stranger.pk), "who was there still signs in with it"
