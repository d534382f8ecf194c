"""What an owner looks after: batches, members, and a copy of everything."""

import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import ZipFile

import pytest
from django.core.mail import EmailMessage
from playwright.sync_api import Browser, FilePayload, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.background import run_background
from tests.e2e.conftest import Watch, profile
from tests.e2e.world import PASSWORD, World
from versiontree.transfer.models import Takeout


def test_a_batch_is_begun_cancelled_and_deleted(signed_in: Page, world: World) -> None:
    page = signed_in
    page.get_by_role("link", name="Batches", exact=True).click()
    page.get_by_label("Model", exact=True).fill("triag")
    inputs = FilePayload(name="texts.jsonl", mimeType="application/jsonl", buffer=b'"a parcel"\n"a pill"\n')
    page.get_by_label("File", exact=True).set_input_files(inputs)
    page.get_by_role("button", name="Start batch").click()
    expect(page.locator(".errorlist")).to_have_text("There is no such model. Did you mean acme/triage?")
    page.get_by_label("Model", exact=True).fill("triage")
    page.get_by_label("File", exact=True).set_input_files(inputs)
    page.get_by_role("button", name="Start batch").click()
    expect(page.get_by_role("heading", name="texts.jsonl")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_event("response")  # the page looks how far it is, and the question stands
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    expect(page.locator("#batch").get_by_role("status")).to_contain_text("Canceled")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Batch texts.jsonl deleted.")).to_be_visible()
    expect(page.get_by_text("No batches yet")).to_be_visible()


MEMBERS = "/t/acme/members/"


@pytest.fixture
def other(browser: Browser, live_server: LiveServer) -> Iterator[Page]:
    """A tab of somebody else's browser."""
    with profile(browser, live_server.url, Watch(urlsplit(live_server.url).netloc)) as context:
        yield context.new_page()


def test_invited_person_opens_the_link_and_works_in_the_tenant(
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


@pytest.fixture
def exports(settings: Settings, tmp_path: Path) -> None:
    """A folder of their own for take-outs."""
    settings.HMI_EXPORT_ROOT = tmp_path / "exports"
    settings.HMI_EXPORT_ROOT.mkdir()


def test_all_data_is_taken_out_in_one_file_that_comes_without_a_reload(
    signed_in: Page, world: World, exports: None
) -> None:
    page = signed_in
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_text("The export starts in a moment.")).to_be_visible()
    run_background(Takeout.unscoped.get(tenant=world.tenant).pk)
    download = page.get_by_role("link", name="Download")
    expect(download).to_be_visible()
    with page.expect_download() as coming:
        download.click()
    with ZipFile(io.BytesIO(coming.value.path().read_bytes())) as archive:
        assert archive.testzip() is None
        assert {"usage.csv", "audit.csv"} <= {Path(name).name for name in archive.namelist()}
    expect(page.get_by_role("button", name="Export")).to_be_visible()
