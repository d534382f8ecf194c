"""From a question to its answer: a request that failed, a word nobody knows, a page nobody finds."""

import re
from datetime import UTC, datetime

from playwright.sync_api import Page, expect

from tenants.usage.models import LoggedRequest, UsageDay, UsageSum
from tests.e2e.conftest import sign_in
from tests.e2e.journeys.traveller import Traveller, took
from tests.e2e.looking import picture
from tests.e2e.world import World


def refuse(world: World) -> None:
    """A request of today that named a field which does not exist, in the log and in the usage."""
    refused = {
        "status": 422,
        "error_code": "invalid_field",
        "reference": "acme/triage",
        "param": "inputs[0].txt",
    }
    LoggedRequest.unscoped.create(
        tenant=world.tenant,
        at=datetime.now(UTC),
        request_id="0c6f2e0c41b4d4f8e6a7d3b9f0c2a51",
        api="infer",
        message="Input 0 has an unknown field …; it must be a string.",
        **refused,
    )
    for counted in (UsageDay, UsageSum):
        counted.unscoped.filter(tenant=world.tenant).update(refused=1)


def test_a_refused_request_says_why_and_what_to_send_instead(page: Page, world: World) -> None:
    refuse(world)
    person = Traveller(sign_in(page, "olga"), "why a request failed")
    person.click(page.get_by_role("link", name=re.compile("refused")))
    expect(page.get_by_text("inputs[0].txt: Input 0 has an unknown field")).to_be_visible()
    person.click(page.get_by_role("link", name="What to send instead"))
    expect(page.locator(".tab-1 pre")).to_contain_text("acme/triage")
    assert took(person.arrived()) == (2, 0)
    picture(page, "request")


def test_a_word_is_explained_where_it_stands_by_keyboard_too(page: Page, world: World) -> None:
    sign_in(page, "olga")
    page.goto("/t/acme/webhooks/")
    word = page.get_by_role("button", name="alias", exact=True)
    word.press("Enter")
    meaning = page.get_by_text("A name that points to a version of a model")
    expect(meaning).to_be_visible()
    picture(page, "term")
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    page.get_by_role("link", name="Help on this page").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Webhooks")
    picture(page, "help-chapter")
    page.get_by_role("searchbox", name="Search the help").fill("retry after")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("heading", name="Search results")).to_be_visible()
    picture(page, "help-search")
    page.get_by_role("link", name="Glossary").click()
    picture(page, "help-glossary")


def test_the_search_does_what_it_finds(page: Page, world: World) -> None:
    sign_in(page, "olga")
    page.keyboard.press("Control+k")
    search = page.locator("#search").get_by_role("searchbox")
    search.fill("dark")
    expect(page.get_by_role("button", name="Dark theme")).to_be_visible()
    picture(page, "search-dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("Control+k")
    search.fill("roll back")
    expect(page.locator("#found").get_by_role("link", name="Roll back a model")).to_be_visible()
    search.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Models")
