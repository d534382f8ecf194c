"""The pages on which people sign in and look after their accounts."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.core import mail
from django.core.cache import cache
from playwright.sync_api import Page

from tenants.accounts.models import User
from tenants.accounts.services.invitations import invitation_create
from tenants.base.background_tasks import background_tasks
from tests.e2e.conftest import Enter
from tests.e2e.navigation import follow
from tests.e2e.world import PASSWORD, World
from tests.integration.tenants.accounts.signing_in import code_of

SIGNED_OUT = {
    "sign-in": "/login/",
    "password-reset": "/password/reset/",
    "password-reset-sent": "/password/reset/done/",
    "password-reset-link-used": "/password/reset/key/1-absent/",
    "password-reset-done": "/password/reset/key/done/",
    "sign-up-closed": "/signup/",
    "account-inactive": "/inactive/",
    "e-mail-link-sent": "/confirm-email/",
    "e-mail-link-used": "/confirm-email/absent/",
}
MAILBOX = "somebody.with.a.long.name@department.pharmacy.example.org"


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
    yield from _invited(page, enter, world)
    yield from _by_letter(page, enter, world)
    enter(User.objects.create_user("passwordless"))
    page.goto("/password/set/")
    yield "account-first-password"
    enter(world.owner)
    yield from _of_ones_own(page)
    follow(page.get_by_role("button", name="Sign out"))
    _send(page, world.owner.username, PASSWORD)
    yield "sign-in-code"


def _of_ones_own(page: Page) -> Iterator[str]:
    page.goto("/help/")
    yield "help"
    page.goto("/help/webhooks/")
    yield "help-chapter"
    page.goto("/help/glossary/")
    yield "help-glossary"
    page.goto("/profile/")
    yield "account-profile"
    page.goto("/password/change/")
    yield "account-password"
    page.goto("/notices/")
    yield "account-notices"
    page.goto("/email/")
    yield "account-no-e-mail"
    page.get_by_label("E-mail address").fill(MAILBOX)
    follow(page.get_by_role("button", name="Add"))
    yield "account-e-mail"
    page.goto("/second-factor/")
    yield "account-second-factor-off"
    follow(page.get_by_role("link", name="Set up"))
    yield "account-again"
    page.get_by_label("Password").fill(PASSWORD)
    follow(page.get_by_role("button", name="Continue"))
    yield "account-second-factor-set-up"
    page.get_by_label("Code").fill(code_of(page.locator("main code").inner_text()))
    page.get_by_role("button", name="Enable").click()
    page.get_by_text("Print them").wait_for()
    yield "account-recovery-codes"
    page.goto("/second-factor/")
    yield "account-second-factor-on"
    page.goto("/second-factor/reauthenticate/")
    yield "account-again-by-code"
    page.goto("/second-factor/recovery-codes/generate/")
    yield "account-recovery-codes-new"
    page.goto("/second-factor/totp/deactivate/")
    yield "account-second-factor-switch-off"
    page.goto("/logout/")
    yield "sign-out"


def _by_letter(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """What the links of messages lead to."""
    enter(world.viewer)
    page.goto("/email/")
    page.get_by_label("E-mail address").fill(MAILBOX)
    follow(page.get_by_role("button", name="Add"))
    page.goto(_link_in_last_email())
    yield "e-mail-confirm"
    follow(page.get_by_role("button", name="Confirm"))
    enter(None)
    page.goto("/password/reset/")
    page.get_by_label("E-mail address").fill(MAILBOX)
    follow(page.get_by_role("button", name="Send"))
    page.goto(_link_in_last_email())
    yield "password-reset-choose"


def _link_in_last_email() -> str:
    """The path of the link in the newest message."""
    background_tasks.join()
    found = re.search(r"https?://\S+", str(mail.outbox[-1].body))
    assert found
    return urlsplit(found[0]).path


def _invited(page: Page, enter: Enter, world: World) -> Iterator[str]:
    _, token = invitation_create(tenant=world.tenant, email=MAILBOX, role="developer", actor=world.owner)
    page.goto(f"/invitations/{token}/")
    yield "invitation"
    follow(page.get_by_role("link", name="Sign up"))
    yield "sign-up-invited"
    enter(world.stranger)
    page.goto(f"/invitations/{token}/")
    yield "invitation-of-another"


def _send(page: Page, name: str, password: str) -> None:
    page.goto("/login/")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    follow(page.get_by_role("button", name="Sign in"))
