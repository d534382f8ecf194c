"""Members: invited by a link, and removed while they are at work."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.core.mail import EmailMessage
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.e2e.conftest import Watch, profile, sign_in
from tests.e2e.world import PASSWORD, World

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


def test_a_member_who_is_removed_at_work_sees_nothing_from_the_next_click_on(
    signed_in: Page, other: Page, world: World
) -> None:
    sign_in(other, world.developer.username)
    other.get_by_role("link", name="Data", exact=True).click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Data")
    signed_in.goto(MEMBERS)
    signed_in.get_by_role("button", name="Remove dev").click()
    signed_in.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(signed_in.get_by_text("Removed dev.")).to_be_visible()
    other.get_by_role("link", name="Jobs", exact=True).click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Not found")
    other.get_by_role("link", name="Go to home").click()
    expect(other.get_by_text("No tenant yet")).to_be_visible()


def test_an_invitation_that_is_sent_again_has_another_link_which_ends_when_it_is_withdrawn(
    signed_in: Page, other: Page, mailoutbox: list[EmailMessage]
) -> None:
    signed_in.goto(MEMBERS)
    signed_in.get_by_label("E-mail address").fill("nora@example.org")
    signed_in.get_by_role("button", name="Invite", exact=True).click()
    shown = signed_in.locator("#invitation-link")
    first = shown.text_content()
    assert first
    signed_in.get_by_role("button", name="Resend to nora@example.org").click()
    expect(shown).not_to_have_text(first)
    second = shown.text_content()
    assert second
    assert [second in str(message.body) for message in mailoutbox] == [False, True]
    heading = other.get_by_role("heading", level=1)
    for link, said in ((first, "No longer available"), (second, "Acme Pharmacy invites you")):
        other.goto(link)
        expect(heading).to_have_text(said)
    signed_in.get_by_role("button", name="Withdraw").click()
    signed_in.get_by_role("alertdialog").get_by_role("button", name="Withdraw").click()
    expect(signed_in.get_by_text("Invitation for nora@example.org withdrawn.")).to_be_visible()
    expect(signed_in.get_by_role("heading", name="Invitations")).to_have_count(0)
    other.goto(second)
    expect(heading).to_have_text("No longer available")


def test_another_role_holds_from_the_next_click_on(signed_in: Page, other: Page, world: World) -> None:
    sign_in(other, world.viewer.username)
    offered = other.get_by_role("link", name="Upload data")
    expect(offered).to_have_count(0)
    signed_in.goto(MEMBERS)
    signed_in.get_by_role("button", name="Change role of victor").click()
    question = signed_in.get_by_role("dialog", name="Change role of victor")
    expect(question.get_by_label("Role")).to_be_focused()
    question.get_by_label("Role").select_option("Developer")
    question.get_by_role("button", name="Change").click()
    expect(signed_in.get_by_text("victor now has the role developer.")).to_be_visible()
    expect(signed_in.get_by_role("row", name="victor")).to_contain_text("Developer")
    other.get_by_role("link", name="Home").click()
    expect(offered).to_be_visible()
