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


@pytest.mark.parametrize("fault", ["status", "connection"])
def test_a_failed_request_of_htmx_shows_a_notice_and_is_sent_again(signed_in: Page, fault: str) -> None:
    def fail(route: Route) -> None:
        if fault == "status":
            route.fulfill(status=500, headers={"X-Request-Id": "abc123"}, body="")
        else:
            route.abort("failed")

    signed_in.goto("/t/acme/")
    signed_in.route(SEARCH, fail)
    search_field(signed_in)
    notice = signed_in.locator(".failed-request")
    expect(notice).to_have_count(1)
    expect(notice).to_be_visible()
    if fault == "status":
        expect(notice).to_contain_text("Request ID: abc123")
        expect(notice).to_contain_text("(500)")
    else:
        expect(notice).to_contain_text("The server cannot be reached.")
    picture(signed_in, f"failed-{fault}")
    signed_in.emulate_media(color_scheme="dark")
    picture(signed_in, f"failed-{fault}-dark")
    signed_in.set_viewport_size({"width": 390, "height": 800})
    picture(signed_in, f"failed-{fault}-phone")
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
