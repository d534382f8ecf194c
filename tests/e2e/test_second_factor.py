"""A second factor, from setting it up to signing in with it."""

import pytest
from django.core.cache import cache
from playwright.sync_api import Page, expect

from tests.e2e.world import PASSWORD, World
from tests.integration.tenants.accounts.signing_in import code_of


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """How often somebody tried is remembered by the process."""
    cache.clear()


def set_up(page: Page) -> str:
    """Enter what the app would show on the page that sets it up; the secret."""
    secret = page.locator("main code").inner_text()
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Enable").click()
    page.get_by_text("Print them").wait_for()
    return secret


def test_the_owner_sets_up_an_app_and_signs_in_with_its_code(signed_in: Page, world: World) -> None:
    signed_in.get_by_role("link", name=world.owner.username).click()
    signed_in.get_by_role("link", name="Two-factor authentication").click()
    signed_in.get_by_role("link", name="Set up").click()
    signed_in.get_by_label("Password").fill(PASSWORD)
    signed_in.keyboard.press("Enter")
    secret = set_up(signed_in)
    signed_in.get_by_role("button", name="Sign out").click()
    signed_in.get_by_label("User name").fill(world.owner.username)
    signed_in.get_by_label("Password").fill(PASSWORD)
    signed_in.keyboard.press("Enter")
    signed_in.get_by_label("Code").fill(code_of(secret, later=True))
    signed_in.keyboard.press("Enter")
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Acme Pharmacy")
