"""Requests in the background that fail: one notice says so, and sends them again."""

import json

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import AWAY, MEANT, Watch
from tests.e2e.looking import picture
from tests.e2e.test_uploads import NEW_DATASET, given

SEARCH = "**/t/acme/search/**"
CHATS = "".join(
    json.dumps(
        {"messages": [{"role": "user", "content": f"say {n}"}, {"role": "assistant", "content": "no"}]}
    )
    + "\n"
    for n in range(60)
).encode()


@pytest.fixture(autouse=True)
def faults_are_meant(watch: Watch) -> None:
    """The console tells of what fails here."""
    watch.expected += (*MEANT, *AWAY, "Error Code 500")


def search_field(page: Page) -> None:
    """Open the search and type a word."""
    page.keyboard.press("Control+k")
    page.locator("#search input").press_sequentially("triage")


def test_failed_request_of_htmx_shows_one_notice_and_is_sent_again(signed_in: Page) -> None:
    def unavailable(route: Route) -> None:
        route.fulfill(status=500, headers={"X-Request-Id": "abc123"}, body="")

    notice = signed_in.locator(".failed-request")
    for fail, texts in (
        (unavailable, ("Request ID: abc123", "(500)")),
        (lambda route: route.abort("failed"), ("The server cannot be reached.",)),
    ):
        signed_in.goto("/t/acme/")
        signed_in.route(SEARCH, fail)
        search_field(signed_in)
        expect(notice).to_have_count(1)
        expect(notice).to_be_visible()
        for text in texts:
            expect(notice).to_contain_text(text)
        picture(signed_in, "failed-request")
        signed_in.unroute(SEARCH)
        notice.get_by_role("button", name="Try again").click()
        expect(notice).to_have_count(0)
        expect(signed_in.locator("#search")).to_contain_text("triage")


def test_an_upload_whose_server_fails_shows_the_notice_and_goes_on(signed_in: Page) -> None:
    signed_in.goto(NEW_DATASET)
    uploads = "**/api/v1/tenants/acme/uploads**"
    signed_in.route(
        uploads, lambda route: route.fulfill(status=503, headers={"X-Request-Id": "up1"}, body="")
    )
    signed_in.get_by_label("Training file").set_input_files(given("rows.jsonl", CHATS))
    notice = signed_in.locator(".failed-request")
    expect(notice).to_contain_text("Request ID: up1")
    signed_in.unroute(uploads)
    notice.get_by_role("button", name="Try again").click()
    expect(signed_in.get_by_text("Uploaded", exact=True)).to_be_visible()
    expect(notice).to_have_count(0)
