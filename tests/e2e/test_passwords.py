"""A forgotten password, by the links of messages."""

import pytest
from django.core.cache import cache
from playwright.sync_api import Page, expect

from tests.e2e.emails import link_in_last_email
from tests.e2e.navigation import follow
from tests.e2e.world import World

MAILBOX = "olga@example.org"
NEW = "a longer horse, another battery"


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """How often somebody asked is remembered by the process."""
    cache.clear()


def test_an_address_is_confirmed_by_its_link_and_a_forgotten_password_chosen_anew_by_another(
    signed_in: Page, world: World
) -> None:
    page = signed_in
    page.goto("/email/")
    page.get_by_label("E-mail address").fill(MAILBOX)
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_text("not confirmed")).to_be_visible()
    page.goto(link_in_last_email())
    expect(page.get_by_text(f"{MAILBOX} is an e-mail address of {world.owner.username}.")).to_be_visible()
    follow(page.get_by_role("button", name="Confirm"))
    page.goto("/email/")
    expect(page.locator("form", has_text=MAILBOX)).to_contain_text("primary confirmed")
    follow(page.get_by_role("button", name="Sign out"))

    page.goto("/login/")
    page.get_by_role("link", name="Forgot your password?").click()
    page.get_by_label("E-mail address").fill(MAILBOX)
    page.get_by_role("button", name="Send link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Check your e-mail")
    page.goto(link := link_in_last_email())
    for again in ("another", NEW):
        page.get_by_label("New password", exact=True).fill(NEW)
        page.get_by_label("Repeat the new password").fill(again)
        page.get_by_role("button", name="Change password").click()
        if again != NEW:
            expect(page.locator(".errorlist")).to_be_visible()
    expect(page.get_by_role("heading", name="Password changed")).to_be_visible()
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_have_text("Invalid link")
    page.goto("/login/")
    page.get_by_label("User name").fill(MAILBOX)
    page.get_by_label("Password").fill(NEW)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Acme Pharmacy")
