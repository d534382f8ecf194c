"""The pages on which people sign in and look after their accounts."""

from collections.abc import Iterator

from django.core.cache import cache
from playwright.sync_api import Page

from tests.e2e.conftest import Enter
from tests.e2e.test_second_factor import set_up
from tests.e2e.world import PASSWORD, World

SIGNED_OUT = {
    "sign-in": "/login/",
    "password-reset": "/password/reset/",
    "password-reset-sent": "/password/reset/done/",
    "password-reset-link-used": "/password/reset/key/1-absent/",
    "password-reset-done": "/password/reset/key/done/",
    "sign-up-closed": "/signup/",
    "account-inactive": "/inactive/",
    "e-mail-link-used": "/confirm-email/absent/",
}


def pages(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """Each in turn."""
    cache.clear()  # how often somebody tried is remembered by the process
    for name, address in SIGNED_OUT.items():
        page.goto(address)
        yield name
    _send(page, "nobody", "not the password")
    yield "sign-in-refused"
    for _ in range(5):
        _send(page, "nobody", "not the password")
    yield "locked-out"
    enter(world.owner)
    yield from _of_ones_own(page)
    page.get_by_role("button", name="Sign out").click()
    _send(page, world.owner.username, PASSWORD)
    yield "sign-in-code"


def _of_ones_own(page: Page) -> Iterator[str]:
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


def _send(page: Page, name: str, password: str) -> None:
    page.goto("/login/")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
