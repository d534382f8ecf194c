"""Forgotten and changed passwords."""

import re
import threading
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.test import Client
from pytest_django import Settings

from tenants.base.background_tasks import background_tasks
from tests.integration.tenants.accounts.signing_in import enter, signed_in
from tests.integration.world import PASSWORD, World

# Links are sent beside the answer, by another thread.
pytestmark = pytest.mark.django_db(transaction=True)
NEW = "another horse entirely"


def ask(client: Client, email: str) -> str:
    """Ask for the link; the text of the page that follows."""
    page = client.post("/password/reset/", {"email": email}, follow=True).content.decode()
    background_tasks.join()
    return page


def link_in(message: EmailMessage) -> str:
    """The address within the site that a message leads to."""
    found = re.search(r"http://testserver(/\S+)", str(message.body))
    assert found, message.body
    return found[1]


def follow(client: Client, link: str, password: str) -> str:
    """Open the link and choose a password; the text of the page that follows."""
    form = client.get(link, follow=True)
    address = form.redirect_chain[-1][0] if form.redirect_chain else link
    return client.post(address, {"password1": password, "password2": password}, follow=True).content.decode()


def test_a_link_by_mail_leads_to_a_new_password_once(
    client: Client, world: World, mailoutbox: list[EmailMessage]
) -> None:
    assert "Check your e-mail" in ask(client, "owner@example.org")
    message = mailoutbox[0]
    assert (message.to, message.subject) == (["owner@example.org"], "Reset your HMI password")
    assert "Password changed" in follow(client, link_in(message), NEW)
    assert not signed_in(client)
    assert "Invalid link" in Client().get(link_in(message), follow=True).content.decode()
    enter(client, "owner", NEW)
    assert signed_in(client)


def test_the_page_does_not_tell_whose_address_is_known(
    client: Client, world: World, mailoutbox: list[EmailMessage]
) -> None:
    known, unknown = ask(client, "owner@example.org"), ask(client, "nobody@example.org")
    assert re.sub(r'"X-CSRFToken": "\w+"', "", known) == re.sub(r'"X-CSRFToken": "\w+"', "", unknown)
    assert [message.to for message in mailoutbox] == [["owner@example.org"]]


def test_the_answer_waits_for_no_e_mail(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, answered = threading.Event(), threading.Event()

    def send(*_: Any, **__: Any) -> int:
        answered.wait(30)
        sent.set()
        return 1

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", send)
    page = client.post("/password/reset/", {"email": "owner@example.org"}, follow=True)
    assert "Check your e-mail" in page.content.decode()
    assert not sent.is_set()
    answered.set()
    background_tasks.join()
    assert sent.is_set()


def test_a_mail_server_that_is_away_shows_nothing_but_in_the_log(
    client: Client, world: World, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    assert "Check your e-mail" in ask(client, "owner@example.org")
    assert "could not be sent" in caplog.text


def test_a_password_is_changed_by_whoever_knows_it_and_other_browsers_are_signed_out(
    client: Client, world: World, mailoutbox: list[EmailMessage]
) -> None:
    other = Client()
    enter(client, "owner")
    enter(other, "owner")
    form: dict[str, Any] = {"oldpassword": "wrong", "password1": NEW, "password2": NEW}
    assert client.post("/password/change/", form).status_code == 200
    assert client.post("/password/change/", form | {"oldpassword": PASSWORD}).status_code == 302
    assert client.get("/t/acme/").status_code == 200
    assert other.get("/t/acme/").status_code == 302
