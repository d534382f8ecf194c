"""A new member: invited by a link, signed up, at work."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.core.mail import EmailMessage
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.e2e.conftest import Watch, profile
from tests.e2e.world import PASSWORD

MEMBERS = "/t/acme/members/"


@pytest.fixture
def other(browser: Browser, live_server: LiveServer) -> Iterator[Page]:
    """A tab of somebody else's browser."""
    with profile(browser, live_server.url, Watch(urlsplit(live_server.url).netloc)) as context:
        yield context.new_page()


def test_somebody_new_is_invited_opens_the_link_and_works_in_the_tenant(
    signed_in: Page, other: Page, mailoutbox: list[EmailMessage]
) -> None:
    signed_in.get_by_role("link", name="Members").click()
    signed_in.get_by_label("E-mail address").fill("nora@example.org")
    signed_in.get_by_role("combobox", name="Role").select_option("Developer")
    signed_in.get_by_role("button", name="Invite", exact=True).click()
    link = signed_in.locator("#invitation-link").text_content()
    assert link
    assert link in str(mailoutbox[0].body)
    expect(signed_in.get_by_role("row", name="nora@example.org")).to_contain_text("Pending")
    other.goto(link)
    expect(other.get_by_role("heading", level=1)).to_have_text("Acme Pharmacy invites you")
    other.get_by_role("link", name="Sign up").click()
    expect(other.get_by_label("E-mail address")).to_have_value("nora@example.org")
    other.get_by_label("User name").fill("nora")
    other.get_by_label("Password", exact=True).fill(PASSWORD)
    other.get_by_label("Repeat the password").fill(PASSWORD)
    other.get_by_role("button", name="Sign up").click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Acme Pharmacy")
    expect(other.get_by_role("link", name="Upload data")).to_be_visible()
    signed_in.goto(MEMBERS)
    expect(signed_in.get_by_role("row", name="nora@example.org")).to_contain_text("Developer")
