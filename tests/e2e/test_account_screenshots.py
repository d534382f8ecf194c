"""Pictures of the pages on which people sign in and look after their accounts."""

from collections.abc import Iterator
from typing import Literal

import pytest
from django.core.cache import cache
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from tests.e2e.test_screenshots import SCHEMES, SIZES, picture
from tests.e2e.test_second_factor import set_up
from tests.e2e.world import PASSWORD, World


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_screenshots_of_the_pages_of_accounts_fit_their_width(
    browser: Browser, live_server: LiveServer, world: World, size: str, scheme: Literal["light", "dark"]
) -> None:
    cache.clear()
    context = browser.new_context(base_url=live_server.url, viewport=SIZES[size], color_scheme=scheme)
    page = context.new_page()
    shown = {name: picture(page, f"{name}-{size}-{scheme}") for name in _opened(page, world)}
    context.close()
    assert {name: beyond for name, beyond in shown.items() if beyond > 0} == {}


def _opened(page: Page, world: World) -> Iterator[str]:
    """Each page in turn."""
    addresses = {
        "password-reset": "/password/reset/",
        "password-reset-sent": "/password/reset/done/",
        "password-reset-link-used": "/password/reset/key/1-absent/",
        "password-reset-done": "/password/reset/key/done/",
        "sign-up-closed": "/signup/",
        "account-inactive": "/inactive/",
        "e-mail-link-used": "/confirm-email/absent/",
    }
    for name, address in addresses.items():
        page.goto(address)
        yield name
    for _ in range(6):
        _send(page, "nobody", "not the password")
    yield "locked-out"
    yield from _of_ones_own(page, world)


def _of_ones_own(page: Page, world: World) -> Iterator[str]:
    _send(page, world.owner.username, PASSWORD)
    page.goto("/password/change/")
    yield "account-password"
    page.goto("/email/")
    yield "account-no-e-mail"
    page.get_by_label("E-mail address").fill("somebody.with.a.long.name@department.pharmacy.example.org")
    page.get_by_role("button", name="Add").click()
    yield "account-e-mail"
    page.goto("/second-factor/")
    yield "account-second-factor-off"
    page.get_by_role("link", name="Set up an app").click()
    yield "account-again"
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    yield "account-second-factor-set-up"
    set_up(page)
    yield "account-recovery-codes"
    page.goto("/second-factor/")
    yield "account-second-factor-on"
    page.goto("/second-factor/recovery-codes/generate/")
    yield "account-recovery-codes-new"
    page.goto("/second-factor/totp/deactivate/")
    yield "account-second-factor-switch-off"
    page.goto("/logout/")
    yield "sign-out"
    page.get_by_role("button", name="Sign out").click()
    _send(page, world.owner.username, PASSWORD)
    yield "sign-in-code"


def _send(page: Page, name: str, password: str) -> None:
    page.goto("/login/")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
