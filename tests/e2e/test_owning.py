"""What an owner looks after: webhooks, and a copy of everything."""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import pytest
from django.db import connection
from playwright.sync_api import Page, expect
from pytest_django import Settings

from tenants.webhooks.services.delivery import webhooks_send
from tests.background import run_background
from tests.e2e.world import World
from tests.integration.tenants.webhooks.conftest import receiver
from tests.integration.tenants.webhooks.receiver import Receiver
from versiontree.transfer.models import Takeout

__all__ = ["receiver"]


@pytest.fixture
def exports(settings: Settings, tmp_path: Path) -> None:
    """A folder of their own for take-outs."""
    settings.HMI_EXPORT_ROOT = tmp_path / "exports"
    settings.HMI_EXPORT_ROOT.mkdir()


def send() -> None:
    """What waits, as a worker would; in a thread, since this one has the browser's event loop."""

    def work() -> None:
        webhooks_send(max_seconds=5)
        connection.close()

    with ThreadPoolExecutor(1) as worker:
        worker.submit(work).result()


def test_a_webhook_is_made_tried_replayed_turned_off_and_deleted(signed_in: Page, receiver: Receiver) -> None:
    page, sent = signed_in, signed_in.locator("table.sent tbody tr")
    page.get_by_role("link", name="Webhooks").click()
    page.get_by_label("URL").fill("http://127.0.0.2/hooks")
    page.get_by_label("An alias moves to another version").check()
    page.get_by_role("button", name="Create webhook").click()
    expect(page.locator(".errorlist")).to_be_visible()
    expect(page.get_by_label("An alias moves to another version")).to_be_checked()
    page.get_by_label("URL").fill(receiver.url)
    page.get_by_role("button", name="Create webhook").click()
    secret = page.locator("#new-secret").text_content()
    assert secret
    assert secret.startswith("whsec_")
    page.get_by_role("button", name="Send test event").click()
    assert secret not in page.content()
    expect(sent).to_have_count(1)
    send()
    page.reload()
    expect(sent).to_contain_text("Delivered")
    sent.get_by_role("button", name="Replay").click()
    send()
    page.reload()
    expect(sent).to_have_count(2)
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1
    page.get_by_role("button", name="Rotate secret").click()
    page.get_by_role("dialog", name="Rotate the secret?").get_by_role("button", name="Rotate").click()
    assert page.locator("#new-secret").text_content() != secret
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("heading", name="Disabled since")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No webhooks yet")).to_be_visible()


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
